"""What producers and consumers share: connections, metadata, backoff.
Rooms: producer/, consumer/.

May import: cluster, cluster.protocol.
Open first: connections.py.
"""

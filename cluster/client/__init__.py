"""The parts that producers and consumers share: connections, metadata, backoff.

Subpackages: producer/, consumer/, transform/.
May import: cluster, cluster.protocol.
Open first: connections.py.
"""

"""Client quotas: which quota applies to a client, how much of it is used, and how long the client is throttled.

May import: cluster, cluster.protocol.
Open first: client_quotas.py.
"""

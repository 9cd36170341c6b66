"""Client quotas: which one applies to a client, how much of it is used, and for how long the client is throttled.

May import: cluster, cluster.protocol.
Open first: client_quotas.py.
"""

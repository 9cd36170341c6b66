"""The logic of a broker's socket server: connections, network threads, request queue, handlers and metrics.

May import: cluster, cluster.protocol, cluster.quotas.
Open first: socket_server.py.
"""

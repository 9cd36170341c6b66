"""Decides what a broker's socket server does: connections, network threads, request queue, handlers and metrics.

May import: cluster, cluster.protocol, cluster.quotas.
Open first: socket_server.py.
"""

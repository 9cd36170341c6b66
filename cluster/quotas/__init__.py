"""Quotas of clients: which one is whose, what a client has used of it, and for how long it has to wait.

May import: cluster, cluster.protocol.
Open first: client_quotas.py.
"""

"""Authorizes outside clients: the operations that each API needs, and the responses to refused clients.

May import: cluster, cluster.messages, cluster.protocol, cluster.server.
Open first: authorizer.py.
"""

"""The live world: the wall clock, TCP, nodes in processes of their own, and what is observed of clients.

May import: cluster, cluster.network, cluster.protocol, cluster.server.
Open first: fabric.py.
"""

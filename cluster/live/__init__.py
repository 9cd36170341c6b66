"""The live world: the wall clock, TCP, nodes in processes of their own, and what is observed of clients.

May import: cluster, cluster.network, cluster.protocol.
Open first: fabric.py.
"""

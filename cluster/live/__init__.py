"""Live runs: the wall clock, TCP, nodes in processes of their own, and the observation of clients.

May import: cluster, cluster.network, cluster.protocol, cluster.server.
Open first: fabric.py.
"""

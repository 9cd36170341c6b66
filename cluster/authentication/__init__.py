"""The SASL authentication of clients from outside the cluster, before a broker reads their first request.

May import: cluster, cluster.protocol, cluster.server.
Open first: sasl.py.
"""

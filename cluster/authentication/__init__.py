"""How clients from outside authenticate to a broker: SASL, before their first request is looked at.

May import: cluster, cluster.protocol, cluster.server.
Open first: sasl.py.
"""

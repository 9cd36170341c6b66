"""What a broker answers to clients and followers, API by API.

May import: cluster, cluster.broker.control_planes, cluster.broker.metadata, cluster.broker.replicas,
    cluster.groups, cluster.messages.admin, cluster.protocol, cluster.server.
Open first: data.py.
"""

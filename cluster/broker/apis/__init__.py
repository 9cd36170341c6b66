"""What a broker answers to clients, followers and controllers: one file for each API, named by its key. Here what
moves records and describes the cluster; refusals.py answers what is offered and does nothing here.

May import: cluster, cluster.authorization, cluster.broker.control_planes, cluster.broker.metadata,
cluster.broker.replicas, cluster.groups, cluster.messages.admin, cluster.protocol, cluster.quotas, cluster.server,
cluster.transactions.
Open first: api.py.
"""

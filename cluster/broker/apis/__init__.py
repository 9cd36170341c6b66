"""What a broker answers to clients, followers and controllers: a module for each subject, and in it a handler for each
API; refusals.py answers what is offered and does nothing here.

May import: cluster, cluster.authorization, cluster.broker.control_planes, cluster.broker.metadata,
cluster.broker.replicas, cluster.groups, cluster.groups.assignors, cluster.groups.state, cluster.messages,
cluster.messages.admin, cluster.protocol, cluster.quotas, cluster.server,
cluster.transactions.
Open first: api.py.
"""

"""Handlers of a broker's APIs, a module for related APIs; refusals.py answers APIs that are not implemented.

May import: cluster, cluster.authorization, cluster.broker.control_planes, cluster.broker.metadata,
cluster.broker.replicas, cluster.coordinators, cluster.groups, cluster.groups.state, cluster.messages,
cluster.messages.admin, cluster.protocol, cluster.quotas, cluster.server, cluster.share,
cluster.transactions.
Open first: api.py.
"""

"""Consumer groups: members, committed offsets, and what can be known of groups.

May import: cluster, cluster.broker.apis, cluster.broker.metadata, cluster.groups, cluster.groups.assignors,
    cluster.groups.state, cluster.protocol, cluster.server.
Open first: api_11_join_group.py.
"""

"""A controller as a node: a voter of the quorum with its log and snapshots, and what it answers; and the
registry as a node.

May import: cluster, cluster.authorization, cluster.messages, cluster.messages.admin, cluster.protocol,
    cluster.quotas, cluster.server.
Open first: node.py.
"""

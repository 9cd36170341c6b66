"""The APIs of share groups (KIP-932): membership and descriptions, records, and the state of share partitions.

May import: cluster.broker.apis, cluster.coordinators, cluster.groups, cluster.groups.state, cluster.protocol,
cluster.server, cluster.share.
Open first: records.py.
"""

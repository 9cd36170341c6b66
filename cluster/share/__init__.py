"""Share groups (KIP-932): the records that a group's members have acquired, and the coordinator that keeps their state.

`partition.py` decides, on the leader of a partition, which member may read which record; `coordinator.py` keeps the
outcome in `__share_group_state`. The members themselves are in cluster/groups.

May import: cluster, cluster.broker.metadata, cluster.broker.replicas, cluster.coordinators, cluster.protocol.
Open first: partition.py.
"""

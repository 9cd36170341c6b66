"""Share groups (KIP-932): which records the members have acquired, and the share coordinator, which keeps that state.

`partition.py` decides, on the leader of a partition, which member gets which record; `coordinator.py` stores the state
of the records in `__share_group_state`. Membership is in cluster/groups.

May import: cluster, cluster.broker.metadata, cluster.broker.replicas, cluster.coordinators, cluster.protocol.
Open first: partition.py.
"""

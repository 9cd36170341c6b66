"""The group coordinator, without I/O: the members of groups, their generations or epochs, and their committed offsets.

Only service.py, which connects the coordinator to a broker, uses the partitions that store groups and offsets.
May import: cluster, cluster.broker.metadata, cluster.broker.replicas, cluster.coordinators,
 cluster.groups.state, cluster.protocol.
Open first: coordinator.py.
"""

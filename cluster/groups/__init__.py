"""The group coordinator, pure: which members a group has, which generation or epoch, which offsets it has committed.
Only service.py, its part in a broker, knows the replicas that the offsets are kept in.

May import: cluster, cluster.broker.metadata, cluster.broker.replicas, cluster.coordinators, cluster.groups.assignors,
    cluster.groups.state, cluster.protocol.
Open first: coordinator.py.
"""

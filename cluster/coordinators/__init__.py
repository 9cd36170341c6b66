"""The parts that coordinators share: partitions, waiting requests and writes, deadlines, service in a broker.

May import: cluster, cluster.broker.metadata, cluster.broker.replicas, cluster.protocol.
Open first: core.py.
"""

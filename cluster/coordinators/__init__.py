"""What all coordinators share: led partitions, waiting requests and writes, deadlines, their service in a broker.

May import: cluster, cluster.broker.metadata, cluster.broker.replicas, cluster.protocol.
Open first: core.py.
"""

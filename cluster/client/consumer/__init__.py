"""The consumer, without I/O; it behaves like the Java client 3.9: positions, fetches, offsets, groups.

May import: cluster, cluster.client, cluster.protocol.
Open first: consumer.py.
"""

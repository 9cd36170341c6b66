"""The consumer, a pure core with the behaviour of the Java client 3.9: positions, fetches, offsets.

May import: cluster, cluster.client, cluster.protocol.
Open first: consumer.py.
"""

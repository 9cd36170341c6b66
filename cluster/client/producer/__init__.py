"""The producer, without I/O; it behaves like the Java client 3.9: batches, idempotence, retries.

May import: cluster, cluster.client, cluster.protocol.
Open first: producer.py.
"""

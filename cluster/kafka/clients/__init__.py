"""Kafka's own Java producers and consumers as clients of a run: one JVM with all of them, and their actions as events.

May import: cluster, cluster.client.producer, cluster.network, cluster.protocol.
Open first: producer.py.
"""

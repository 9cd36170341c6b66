"""Runs Kafka's own Java producers and consumers in one JVM, and writes their actions into the trace.

May import: cluster, cluster.client.producer, cluster.network, cluster.protocol.
Open first: producer.py.
"""

"""Nodes that are real: JVMs of Apache Kafka, and of ZooKeeper for older releases. Where their jars are, how nodes are
started, stopped, damaged and connected, and what can be seen of them.
Rooms: clients/, observe/.

May import: cluster, cluster.kafka.clients, cluster.kafka.observe, cluster.live, cluster.network, cluster.protocol.
Open first: fabric.py.
"""

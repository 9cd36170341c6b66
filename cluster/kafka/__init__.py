"""Runs real nodes: JVMs of Apache Kafka, and of ZooKeeper for older releases.

The package finds or installs the jars, starts and stops the processes, relays their connections, and injects faults.

Subpackages: clients/, observe/.
May import: cluster, cluster.kafka.clients, cluster.kafka.observe, cluster.live, cluster.network, cluster.protocol.
Open first: fabric.py.
"""

"""Real nodes: JVMs of Apache Kafka, and of ZooKeeper for older releases.

Here are their jars, processes, connections and faults.

Subpackages: clients/, observe/.
May import: cluster, cluster.kafka.clients, cluster.kafka.observe, cluster.live, cluster.network, cluster.protocol.
Open first: fabric.py.
"""

"""Events of a cluster of real Kafka brokers, from what can be seen of it: the controller's metadata log or
ZooKeeper's transaction log, the segment files of every broker, the lines that nodes write to their consoles, and high
watermarks sampled over the wire.

May import: cluster.protocol.
Open first: observer.py.
"""

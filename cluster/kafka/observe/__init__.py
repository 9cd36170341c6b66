"""Events of a cluster of real Kafka brokers, from what can be seen of it: the controller's metadata log, the segment
files of every broker, the lines that brokers write to their consoles, and high watermarks sampled over the wire.

May import: cluster.protocol.
Open first: observer.py.
"""

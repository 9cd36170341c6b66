"""Derives the events of real Kafka brokers from their logs, console output and sampled high watermarks.

The logs are the controller's metadata log or ZooKeeper's transaction log, and the segment files of every broker.

May import: cluster.protocol.
Open first: observer.py.
"""

"""Derives the events of real Kafka brokers from their logs, console output and sampled high watermarks.

The logs are the controllers' metadata log or ZooKeeper's transaction log, and the segment files of every broker.

May import: cluster.protocol.
Open first: observer.py.
"""

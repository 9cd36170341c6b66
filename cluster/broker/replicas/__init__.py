"""The replicas of one broker: replica manager, partitions, fetchers, fetch sessions, delayed requests, quotas, deletion
of records, disk failures.

May import: cluster, cluster.broker.metadata, cluster.messages, cluster.protocol, cluster.server.
Open first: manager.py.
"""

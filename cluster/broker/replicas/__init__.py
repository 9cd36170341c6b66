"""The replicas of one broker: replica manager, partitions, fetchers, fetch sessions, waiting requests, quotas, deletion
of records, failing disks.

May import: cluster, cluster.broker.metadata, cluster.messages, cluster.protocol, cluster.server.
Open first: manager.py.
"""

"""The replicas of one broker: the replica manager, its partitions, fetchers and fetch sessions, requests that
wait, quotas, deletion of records, and disks that fail.

May import: cluster, cluster.broker.metadata, cluster.messages, cluster.protocol, cluster.server.
Open first: manager.py.
"""

"""What the coordinators of a broker share: where a key is kept, requests that wait, deadlines, the log of an internal
topic.

May import: cluster, cluster.broker.replicas, cluster.protocol.
Open first: topic_log.py.
"""

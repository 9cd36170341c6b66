"""The nodes that control a cluster: a KRaft controller, and the registry, which stands for ZooKeeper.

May import: cluster, cluster.authorization, cluster.messages, cluster.messages.admin, cluster.protocol,
 cluster.quotas, cluster.server.
Open first: node.py.
"""

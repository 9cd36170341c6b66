"""The nodes that control a cluster: KRaft controllers, or the registry, which takes ZooKeeper's place.

May import: cluster, cluster.authorization, cluster.messages, cluster.messages.admin, cluster.protocol,
 cluster.quotas, cluster.server.
Open first: node.py.
"""

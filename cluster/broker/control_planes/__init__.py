"""A broker's communication with the controller, in KRaft and in the ZooKeeper era.

May import: cluster, cluster.broker.metadata, cluster.broker.replicas, cluster.messages, cluster.messages.admin,
 cluster.protocol, cluster.server.
Open first: plane.py.
"""

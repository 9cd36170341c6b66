"""A broker's side of the control plane, with KRaft and with ZooKeeper.

May import: cluster, cluster.broker.metadata, cluster.broker.replicas, cluster.messages, cluster.messages.admin,
 cluster.protocol, cluster.server.
Open first: plane.py.
"""

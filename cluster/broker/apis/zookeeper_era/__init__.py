"""What controllers and brokers of the ZooKeeper era ask of a broker.

May import: cluster, cluster.broker.apis, cluster.broker.control_planes, cluster.broker.replicas, cluster.messages,
    cluster.protocol.
Open first: api_04_leader_and_isr.py.
"""

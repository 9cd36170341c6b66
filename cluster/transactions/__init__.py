"""The transaction coordinator, pure: the state of each transactional.id, its epochs, and when its markers are due.
service.py is its part in a broker, marker_channel.py its way to the leaders of the partitions.

May import: cluster, cluster.broker.metadata, cluster.broker.replicas, cluster.coordinators, cluster.protocol.
Open first: coordinator.py.
"""

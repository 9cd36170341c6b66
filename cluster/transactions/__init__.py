"""The transaction coordinator: the state of each transactional.id, its epochs, and its markers.

service.py is its part in a broker, marker_channel.py its connection to the leaders of partitions.

May import: cluster, cluster.broker.metadata, cluster.broker.replicas, cluster.coordinators, cluster.protocol.
Open first: coordinator.py.
"""

"""The transaction coordinator: the state of each transactional.id, its epochs, and its markers.

service.py makes the coordinator part of a broker; marker_channel.py has its connections to partitions' leaders.

May import: cluster, cluster.broker.metadata, cluster.broker.replicas, cluster.coordinators, cluster.protocol.
Open first: coordinator.py.
"""

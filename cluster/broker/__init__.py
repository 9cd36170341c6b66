"""A Kafka broker: its state, and the dispatch of requests to the handlers of its APIs.

Subpackages: apis/, replicas/, metadata/, control_planes/.
May import: cluster, cluster.authentication, cluster.authorization, cluster.broker.apis,
cluster.broker.control_planes, cluster.broker.metadata, cluster.broker.replicas, cluster.groups,
cluster.messages.admin, cluster.protocol, cluster.quotas, cluster.server.
Open first: broker.py.
"""

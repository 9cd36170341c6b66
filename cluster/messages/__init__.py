"""Converts Kafka's messages to the inputs of brokers and controllers, and results back to messages.

Subpackages: admin/ (requests of admin clients).
May import: cluster, cluster.protocol.
Open first: controller_requests.py.
"""

"""Brokers, controllers, producers and consumers, each as a node of the cluster.

Here are the parts of every node (core, outbox, timers, channel), and Kafka's configuration.

Subpackages: protocol/, network/, messages/, server/, broker/, groups/, client/, controller_node/, live/.
May import: no sibling package.
Open first: node.py.
"""

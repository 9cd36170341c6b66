"""Brokers, controllers, producers and consumers as nodes. Here: what every node is made of (core, outbox,
timers, channel) and Kafka's configuration.
Rooms: protocol/, network/, messages/, server/, broker/, groups/, client/, controller_node/, live/.

May import: no other room of this package.
Open first: node.py.
"""

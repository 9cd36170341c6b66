"""Nodes that are real: JVMs of Apache Kafka. Where its jars are, how nodes are started, stopped, damaged and connected,
and what can be seen of them.
Rooms: observe/.

May import: no other room of this package.
Open first: home.py.
"""

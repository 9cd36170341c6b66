"""Nodes that are real: JVMs of Apache Kafka. How they are started, stopped, damaged and connected, and what can be seen
of them.
Rooms: observe/.

May import: no other room of this package.
Open first: observe/observer.py.
"""

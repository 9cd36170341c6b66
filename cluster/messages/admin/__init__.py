"""Requests of admin clients taken apart, and settings as they are described to them; shared by brokers,
which forward or answer, and controllers, which decide.

May import: cluster, cluster.broker.metadata, cluster.protocol.
Open first: requests.py.
"""

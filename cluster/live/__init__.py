"""Runs clusters live: on the wall clock, over TCP, with each node in its own process, observing outside clients.

May import: cluster, cluster.network, cluster.protocol, cluster.server.
Open first: fabric.py.
"""

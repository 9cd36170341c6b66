"""Runs nodes on machines, and simulates the network between them: links, network cards, connections, time.

The modules passage, world and host also serve live runs over TCP.

May import: cluster.
Open first: shell.py.
"""

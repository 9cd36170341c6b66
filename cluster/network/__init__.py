"""Runs nodes on machines, and simulates the network between them: links, network cards, connections, time.

Modules that live TCP uses, too (passage, world, host), are also here.

May import: cluster.
Open first: shell.py.
"""

"""The shell round every core, the machines it runs on, and the simulated network: links, cards, connections,
virtual time. What live TCP shares with it (passage, world, host) is here, too.

May import: cluster.
Open first: shell.py.
"""

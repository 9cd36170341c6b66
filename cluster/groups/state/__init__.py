"""The state of groups and their offsets, and the records in which the coordinator stores it.

May import: cluster, cluster.coordinators, cluster.protocol.
Open first: group.py.
"""

"""What the coordinator knows of groups and their offsets, and the records in which it keeps that.

May import: cluster, cluster.coordinators, cluster.groups.assignors, cluster.protocol.
Open first: group.py.
"""

"""A broker's registration with the controller, and its copy of the cluster's metadata.

May import: cluster, cluster.messages, cluster.protocol.
Open first: follower.py.
"""

"""A broker's socket server without sockets: connections, network threads, the request queue, handlers, and
what is measured of each request.

May import: cluster, cluster.protocol, cluster.quotas.
Open first: socket_server.py.
"""

"""What a client from outside may do: for each API the operations that it needs, and the answer to who may not.

May import: cluster, cluster.messages, cluster.protocol, cluster.server.
Open first: authorizer.py.
"""

"""SASL, ACLs, tokens and passwords: there are none here, and each API says so.

May import: cluster.broker.apis, cluster.protocol.
Open first: api_29_describe_acls.py.
"""

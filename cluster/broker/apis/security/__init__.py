"""SASL, ACLs, tokens and passwords.

May import: cluster, cluster.broker.apis, cluster.messages.admin, cluster.protocol, cluster.server.
Open first: api_50_describe_user_scram_credentials.py.
"""

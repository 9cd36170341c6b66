"""Share groups (KIP-932), which are not implemented here: each API is refused.

May import: cluster.broker.apis.
Open first: api_78_share_fetch.py.
"""

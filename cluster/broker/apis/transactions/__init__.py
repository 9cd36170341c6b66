"""Transactions, which are not implemented here: each API is refused.

May import: cluster.broker.apis, cluster.protocol.
Open first: api_24_add_partitions_to_txn.py.
"""

"""Transactions: what their coordinator answers to producers, brokers and operators.

May import: cluster, cluster.broker.apis, cluster.broker.replicas, cluster.protocol, cluster.transactions.
Open first: api_24_add_partitions_to_txn.py.
"""

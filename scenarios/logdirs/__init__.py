"""Reads the log directories of stopped brokers, or copies of them, without writing to them.

The result shows the content of each replica, where replicas diverge, and what a returning follower would truncate.

May import: scenarios.observe.
Open first: reading.py.
"""

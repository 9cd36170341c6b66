"""Reads the log directories of stopped brokers, or copies of them, and never writes to them.

The result says what each replica has, where replicas diverge, and what a follower would truncate on its return.

May import: scenarios.observe.
Open first: reading.py.
"""

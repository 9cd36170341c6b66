"""Log directories of brokers that have stopped, or of a copy of them: what is in each, where replicas part, and what a
follower would cut on its return. Everything is only read.

May import: scenarios.observe.
Open first: reading.py.
"""

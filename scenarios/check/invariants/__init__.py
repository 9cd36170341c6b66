"""The protocol's invariants, each checked after every event, and what must be true at a quiet end.

May import: scenarios.check, scenarios.language.verbs, scenarios.observe, scenarios.observe.columns.
Open first: checker.py.
"""

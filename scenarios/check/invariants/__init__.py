"""The invariants of the protocol, checked after every event, and the conditions that must hold at a quiet end.

May import: scenarios.check, scenarios.language.verbs, scenarios.observe, scenarios.observe.columns.
Open first: checker.py.
"""

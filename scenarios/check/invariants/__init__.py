"""The invariants of the protocol, checked after every event, and the conditions at the end of an undisturbed run.

May import: scenarios.check, scenarios.language.verbs, scenarios.observe, scenarios.observe.columns.
Open first: checker.py.
"""

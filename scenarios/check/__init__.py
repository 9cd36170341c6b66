"""The checks of a run: expectations, promises, and the verdict.
Rooms: invariants/.

May import: scenarios.language, scenarios.language.values, scenarios.language.verbs, scenarios.observe.
Open first: verdict.py.
"""

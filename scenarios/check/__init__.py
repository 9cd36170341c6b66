"""What a run is held against: expectations, promises, and the verdict.
Rooms: invariants/.

May import: scenarios.language, scenarios.language.values, scenarios.language.verbs, scenarios.observe.
Open first: verdict.py.
"""

"""What a run is held against: expectations, promises, and the verdict.
Rooms: invariants/.

May import: scenarios.language, scenarios.observe.
Open first: verdict.py.
"""

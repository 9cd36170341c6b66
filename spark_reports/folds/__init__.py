"""Folds: functions in plain Python or numpy that compute tables from the ordered events of each partition.

Spark runs them in its workers.
May import: the standard library, pyarrow and numpy, no other package, because workers have no other part of Highwater.
Open first: events.py (how events come, slice by slice), then timeline.py, the shortest fold.
"""

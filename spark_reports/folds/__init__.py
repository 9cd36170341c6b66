"""Folds: functions in plain Python or numpy that compute tables from the ordered events of each partition.

Spark runs them in its workers, which have no other part of Highwater.
May import: only the standard library, pyarrow and numpy.
Open first: events.py, which reads events slice by slice, then timeline.py, the shortest fold.
"""

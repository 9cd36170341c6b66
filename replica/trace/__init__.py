"""The trace: every kind of event of a run, as a typed class, in families; its columns and signs.

May import: replica.
Open first: events.py.
"""

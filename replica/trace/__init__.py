"""The trace is the list of all events of a run. Each kind of event is a typed class; each subject has a module.

May import: replica.
Open first: events.py.
"""

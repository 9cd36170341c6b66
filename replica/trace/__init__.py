"""The trace, which is the list of all events of a run: a typed class for each kind of event, in a module per topic.

May import: replica.
Open first: events.py.
"""

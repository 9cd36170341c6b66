"""The state of a run while it goes on and after it: its trace on disk, the view and the mirror of the
cluster, every record's fate in the ledger, and its story in words.

May import: scenarios.language, scenarios.language.verbs.
Open first: view.py.
"""

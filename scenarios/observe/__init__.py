"""The state of a run while it goes on and after it: its trace on disk, the view and the mirror of the
cluster, every record's fate in the ledger, and its story in words.
Room: columns/ (millions of records in little memory).

May import: scenarios.language, scenarios.language.verbs, scenarios.observe.columns.
Open first: view.py.
"""

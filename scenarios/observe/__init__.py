"""The state of a run during and after it.

It consists of the trace on disk, the view of the cluster, the mirror (the content of every log), the ledger (the fate
of every record), and the story (the key events as text).

Subpackage: columns/ (millions of records in little memory).

May import: scenarios.language, scenarios.language.verbs, scenarios.observe.columns.

Open first: view.py.
"""

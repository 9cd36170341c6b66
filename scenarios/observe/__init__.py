"""Derive the state of a run from its trace, while the run lasts and afterwards.

The main parts are the trace on disk, the view (the state of the cluster), the mirror (the content of every log), the
ledger (the fate of every record), and the story (the key events as text).

Subpackage: columns/ (millions of records in little memory).

May import: scenarios.language, scenarios.language.verbs, scenarios.observe.columns.

Open first: view.py.
"""

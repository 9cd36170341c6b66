"""The checks of a run: expectations, promises, and the verdict. The subpackage invariants/ checks the protocol.

May import: scenarios.language, scenarios.language.values, scenarios.language.verbs, scenarios.observe,
scenarios.observe.columns.
Open first: verdict.py.
"""

"""Check a run: its expectations, the rules that promise its invariants, and the verdict on its records.

The subpackage invariants/ checks the protocol.


May import: scenarios.language, scenarios.language.values, scenarios.language.verbs, scenarios.observe,
scenarios.observe.columns.
Open first: verdict.py.
"""

"""Runs a scenario: the cluster under test in any mode, its timeline, its workload and its run folder.

May import: scenarios.check, scenarios.check.invariants, scenarios.language,
scenarios.language.values, scenarios.language.verbs, scenarios.language.write, scenarios.metrics,
scenarios.observe, scenarios.observe.columns, scenarios.process.
Open first: runner.py.
"""

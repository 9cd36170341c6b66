"""One run: the cluster under test in either world, its timeline of faults, its workload, its run folder.

May import: scenarios.check, scenarios.check.invariants, scenarios.language,
scenarios.language.values, scenarios.language.verbs, scenarios.language.write, scenarios.observe,
scenarios.observe.columns, scenarios.process.
Open first: runner.py.
"""

"""An interactive run of a scenario, whose viewer breaks the cluster at any moment and compares the outcomes.

May import: scenarios.language, scenarios.language.parse, scenarios.language.values, scenarios.language.verbs,
scenarios.language.write, scenarios.observe, scenarios.run, scenarios.serve, scenarios.view.
Open first: playing.py.
"""

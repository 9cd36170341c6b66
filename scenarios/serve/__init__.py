"""A live cluster for real clients, and the operator's orders to it.

May import: scenarios.language, scenarios.language.parse, scenarios.language.values, scenarios.language.verbs,
scenarios.observe, scenarios.process, scenarios.run, scenarios.terminal, scenarios.view.
Open first: serving.py.
"""

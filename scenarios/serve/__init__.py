"""Serves a live cluster to real Kafka clients, and carries out control commands for it.

May import: scenarios.check, scenarios.language, scenarios.language.parse, scenarios.language.values,
scenarios.language.verbs, scenarios.metrics, scenarios.observe, scenarios.process, scenarios.run,
scenarios.terminal, scenarios.view.
Open first: serving.py.
"""

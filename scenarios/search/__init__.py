"""Runs many scenarios: random schedules, the catalogue in another era of Kafka, and the grid of a sweep.

May import: scenarios.check, scenarios.language, scenarios.language.parse, scenarios.language.verbs,
scenarios.language.write, scenarios.observe, scenarios.process, scenarios.run.
Open first: search.py.
"""

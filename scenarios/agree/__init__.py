"""Comparison of one scenario's runs in the simulator and on real Kafka, to find where the two differ.

May import: scenarios.check, scenarios.language, scenarios.language.parse, scenarios.language.write, scenarios.observe,
scenarios.run, scenarios.search.
Open first: comparison.py.
"""

"""Agreement of two worlds: one scenario, played by the simulator and by real Kafka, and where the two differ.

May import: scenarios.check, scenarios.language, scenarios.language.parse, scenarios.language.write, scenarios.observe,
scenarios.run, scenarios.search.
Open first: comparison.py.
"""

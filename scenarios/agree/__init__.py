"""Agreement of two worlds: one scenario, played by the simulator and by real Kafka, and where the two differ.

May import: scenarios.language, scenarios.language.parse, scenarios.language.write, scenarios.observe, scenarios.check,
scenarios.run, scenarios.search.
Open first: comparison.py; facts.py says what is compared, ties.py what is noise.
"""

"""The JSON Schema of a scenario's file, for editors: scenario.schema.json is written from here, and a test compares it.

May import: scenarios.language, scenarios.language.parse, scenarios.language.values, scenarios.language.verbs.
Open first: document.py.
"""

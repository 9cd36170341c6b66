"""The verbs of the timeline. One class is the whole declaration of a verb: its keys, its doc, an example, its sentence.
Parser, lock, description, JSON Schema, LANGUAGE.md and `highwater fault` follow from it; scenarios.run performs it.

May import: scenarios.language, scenarios.language.values.
Open first: declaration.py.
"""

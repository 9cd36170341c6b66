"""The exercises: a module with one class, and the text of the student's file beside it, under the same name.

May import: scenarios.lab, scenarios.language, scenarios.language.parse, scenarios.language.verbs, scenarios.run.
Open first: loss.py.
"""

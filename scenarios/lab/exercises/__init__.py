"""The exercises: a module with one class for each exercise, and beside it a YAML file of the same name for the student.

May import: scenarios.lab, scenarios.language, scenarios.language.parse, scenarios.language.verbs, scenarios.run.
Open first: loss.py.
"""

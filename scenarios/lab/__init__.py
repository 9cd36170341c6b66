"""The lab: six exercises for a lesson, what a student gets, and how a file that a student hands in is judged.

exercises/ has a module and a text for each exercise: a new one is these two files.
May import: scenarios.language, scenarios.language.parse, scenarios.language.values, scenarios.language.verbs,
scenarios.language.write, scenarios.run.
Open first: exercise.py.
"""

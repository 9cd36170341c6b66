"""Six exercises for a lesson: the files that students start from, and the judging of the files that they hand in.

exercises/ has a Python module and a YAML file for each exercise; to add an exercise, add these two files.

May import: scenarios.language, scenarios.language.parse, scenarios.language.values, scenarios.language.verbs,
scenarios.language.write, scenarios.process, scenarios.run.
Open first: exercise.py.
"""

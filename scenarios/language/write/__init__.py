"""From a scenario back to text: the lock file, its description for a person.

May import: scenarios.language, scenarios.language.values, scenarios.language.verbs.
Open first: lock.py.
"""

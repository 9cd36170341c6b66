"""Writers of a scenario: the lock file in YAML, and a description for people.

May import: scenarios.language, scenarios.language.values, scenarios.language.verbs.
Open first: lock.py.
"""

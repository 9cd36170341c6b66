"""From a file to a scenario, or to every error it has: YAML, names, verbs, variants, lints, the catalogue.

May import: scenarios.language.
Open first: loading.py.
"""

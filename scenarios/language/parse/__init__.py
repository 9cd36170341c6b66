"""From a file to a scenario, or to every error it has: names, verbs, variants, lints, the catalogue.

May import: scenarios.language, scenarios.language.values, scenarios.language.verbs.
Open first: loading.py.
"""

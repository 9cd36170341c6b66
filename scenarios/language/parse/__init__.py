"""The parser of scenario files: cluster, workloads, steps, expectations, variants, lints, and the catalogue.

A file becomes a scenario, or a list of all its errors.

May import: scenarios.language, scenarios.language.values, scenarios.language.verbs.
Open first: loading.py.
"""

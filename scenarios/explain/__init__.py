"""Explain why a record was lost, what would have saved it, which rule is to blame, and the stages of a request.

May import: scenarios.check, scenarios.language, scenarios.language.parse, scenarios.language.verbs,
scenarios.observe, scenarios.process, scenarios.run, scenarios.terminal.
Open first: record.py.
"""

"""The `highwater` command: one module for each subcommand, imported when it is called; and its screens.

May import: scenarios.bench, scenarios.explain.record, scenarios.language, scenarios.language.parse, scenarios.observe,
    scenarios.process, scenarios.run, scenarios.search.search, scenarios.serve, scenarios.terminal.
Open first: main.py.
"""

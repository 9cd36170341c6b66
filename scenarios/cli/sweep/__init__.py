"""`highwater sweep`: the command and its text output.

May import: scenarios.cli, scenarios.language, scenarios.language.write, scenarios.observe, scenarios.process,
scenarios.search, scenarios.terminal.
Open first: command.py.
"""

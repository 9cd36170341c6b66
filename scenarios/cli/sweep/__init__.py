"""`highwater sweep`: the command and its screen.

May import: scenarios.cli, scenarios.language, scenarios.language.write, scenarios.observe, scenarios.process,
scenarios.search, scenarios.terminal.
Open first: command.py.
"""

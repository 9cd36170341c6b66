"""`highwater agree`: the command and its text output.

May import: scenarios.agree, scenarios.cli, scenarios.language, scenarios.language.parse,
scenarios.observe, scenarios.process, scenarios.run, scenarios.search, scenarios.terminal.
Open first: command.py.
"""

"""`highwater agree`: the command and its screen.

May import: scenarios.agree, scenarios.cli, scenarios.language, scenarios.language.parse, scenarios.observe,
scenarios.process, scenarios.run, scenarios.terminal.
Open first: command.py.
"""

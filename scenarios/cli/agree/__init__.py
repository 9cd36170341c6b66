"""`highwater agree`: the command and its screen.

May import: scenarios.agree, scenarios.cli, scenarios.language.parse, scenarios.observe, scenarios.process,
scenarios.run, scenarios.terminal, scenarios.view.
Open first: command.py.
"""

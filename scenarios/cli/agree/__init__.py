"""`highwater agree`: the command and its screen.

May import: scenarios.agree, scenarios.cli, scenarios.cli.kafka, scenarios.language, scenarios.language.parse,
scenarios.observe, scenarios.process, scenarios.run, scenarios.search, scenarios.terminal.
Open first: command.py.
"""

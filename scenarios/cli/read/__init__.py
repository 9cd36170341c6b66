"""`highwater read`: the command and its screen.

May import: scenarios.cli, scenarios.logdirs, scenarios.terminal.
Open first: command.py.
"""

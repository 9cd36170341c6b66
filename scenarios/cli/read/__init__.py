"""`highwater read`: the command and its text output.

May import: scenarios.cli, scenarios.logdirs, scenarios.observe, scenarios.terminal.
Open first: command.py.
"""

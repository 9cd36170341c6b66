"""`highwater watch`: the command and its screen.

May import: scenarios.cli, scenarios.observe, scenarios.process, scenarios.terminal, scenarios.watch.
Open first: command.py.
"""

"""`highwater watch`: the command and its screen.

May import: scenarios.cli, scenarios.process, scenarios.run, scenarios.terminal, scenarios.watch.
Open first: command.py.
"""

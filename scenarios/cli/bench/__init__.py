"""`highwater bench`: how fast the parts are on this machine. No figure is asserted here.

May import: scenarios.bench, scenarios.cli, scenarios.process, scenarios.run, scenarios.terminal.
Open first: commands.py.
"""

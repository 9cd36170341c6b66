"""`highwater watch`: the command and its text output.

May import: scenarios.cli, scenarios.metrics, scenarios.observe, scenarios.process, scenarios.run, scenarios.terminal,
  scenarios.watch.
Open first: command.py.
"""

"""`highwater search`: the command, the steps of a search, and the players that run and shrink fault schedules.

May import: scenarios.cli, scenarios.observe, scenarios.process, scenarios.search, scenarios.terminal.
Open first: course.py.
"""

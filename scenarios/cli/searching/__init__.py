"""`highwater search`: its options, who plays and shrinks the schedules, and its answer.

May import: scenarios.cli, scenarios.language, scenarios.process, scenarios.search, scenarios.terminal.
Open first: course.py.
"""

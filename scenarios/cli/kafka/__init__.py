"""`highwater kafka`: versions of Apache Kafka that runs can be played on.

May import: scenarios.cli, scenarios.terminal.
Open first: command.py.
"""

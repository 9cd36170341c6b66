"""The command's terminal: colours, safe output, progress, interruption, exit codes.

May import: scenarios.observe.
Open first: style.py.
"""

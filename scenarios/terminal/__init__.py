"""How the command meets a terminal: colours, safe output, progress, interruption, exit codes.

May import: scenarios.observe.
Open first: style.py.
"""

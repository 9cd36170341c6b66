"""How the command meets a terminal: colours, safe output, progress, interruption, exit codes.

May import: no other room of this package.
Open first: style.py.
"""

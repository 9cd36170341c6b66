"""Handles the terminal of a command: colours, safe output, progress, interruption, exit codes.

May import: scenarios.observe.
Open first: style.py.
"""

"""Highwater's Python processes and files: what they import, how many of them play, what a run's bytes depend on.

May import: no other room of this package.
Open first: pool.py.
"""

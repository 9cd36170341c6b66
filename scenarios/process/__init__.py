"""Python processes and files of ours: what they import, how many of them play, what a run's bytes depend on.

May import: no other room of this package.
Open first: pool.py.
"""

"""Manages Highwater's Python processes and files: imports, worker processes for runs, temporary folders.

May import: no sibling package.
Open first: pool.py.
"""

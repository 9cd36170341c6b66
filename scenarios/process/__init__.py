"""Highwater's Python processes and files: their imports, the number that play, the inputs of a run's bytes.

May import: no other room of this package.
Open first: pool.py.
"""

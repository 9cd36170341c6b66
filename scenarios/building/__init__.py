"""How Highwater is built: its core compiled with mypyc where there is a C compiler, else plain Python.

May import: no other room of this package.
Open first: modules.py.
"""

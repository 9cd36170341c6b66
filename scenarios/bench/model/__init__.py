"""A model of a run whose outcome is known by arithmetic, written as a trace of any length.

May import: scenarios.observe.
Open first: trace.py.
"""

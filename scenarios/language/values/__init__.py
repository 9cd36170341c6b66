"""Single values, conditions and selectors of a scenario: read from a file's nodes, written back, put into words.

May import: scenarios.language.
Open first: reading.py.
"""

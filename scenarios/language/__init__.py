"""The scenario language as data: specification, steps, conditions, expectations, diagnostics; and back to
text.
Rooms: parse/ (from a file to that data).

May import: no other room of this package.
Open first: spec.py.
"""

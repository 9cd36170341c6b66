"""The scenario language as data: specification, steps, conditions, expectations, diagnostics.
Rooms: values/ (how single values are read and written), verbs/ (the steps of a timeline), parse/ (from a file to that
data), write/ (back to text), schema/ (the JSON Schema).

May import: no other room of this package.
Open first: spec.py.
"""

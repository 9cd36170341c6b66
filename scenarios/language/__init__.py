"""The scenario language as data: specification, steps, conditions, expectations and diagnostics.

Subpackages: values/ reads and writes single values, verbs/ declares the steps of a timeline, parse/ reads a file,
write/ writes a scenario back to text, schema/ builds the JSON Schema.

May import: no sibling package.
Open first: spec.py.
"""

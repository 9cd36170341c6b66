"""Millions of records and batches in columns, a few bytes each; old parts are compressed.

May import: no sibling package.
Open first: record_table.py.
"""

"""Store millions of records and batches in columns, at a few bytes each; old blocks are compressed.

May import: no sibling package.
Open first: record_table.py.
"""

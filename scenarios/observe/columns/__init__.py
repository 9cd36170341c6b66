"""What is known of millions of records and batches, in columns: a few bytes for each, packed where they are old.

May import: no other room of this package.
Open first: record_table.py.
"""

"""Record batches: their bytes, codecs, checks, and the control batches among them.

May import: replica.
Open first: records.py.
"""

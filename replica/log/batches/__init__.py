"""Record batches: encoding, codecs, validation and control batches.

May import: replica.
Open first: records.py.
"""

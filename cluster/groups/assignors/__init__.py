"""Server-side assignors of KIP-848's consumer groups, pure: which member is to read which partition.

May import: no other room of this package.
Open first: specification.py.
"""

"""One voter of a KRaft quorum, without I/O: votes, epochs, and both sides of fetches.

May import: no sibling package.
Open first: quorum.py.
"""

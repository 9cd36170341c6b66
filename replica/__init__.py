"""Replication of one partition: leader and follower state, the rules of each release, fencing, error codes and ids.
Subpackages: log/ (record batches on disk), trace/ (the events of a run).

May import: no sibling package.
Open first: leader.py.
"""

"""Replication of one partition: leader and follower state, the rules by era, fencing, error codes and ids.
Rooms: log/ (batches on a disk), trace/ (the events of a run).

May import: no other room of this package.
Open first: leader.py.
"""

"""Compaction: of each key the last record stays, and logs with `cleanup.policy=compact` stay small.

May import: replica, replica.log, replica.log.batches, replica.log.producers.
Open first: cleaner.py.
"""

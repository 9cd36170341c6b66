"""Compaction, which keeps the last record of each key, so that logs with `cleanup.policy=compact` stay small.

May import: replica, replica.log, replica.log.batches, replica.log.producers.
Open first: cleaner.py.
"""

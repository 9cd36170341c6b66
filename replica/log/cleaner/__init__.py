"""Compaction of logs with `cleanup.policy=compact`: only the last record of each key is kept.

May import: replica, replica.log, replica.log.batches, replica.log.producers.
Open first: cleaner.py.
"""

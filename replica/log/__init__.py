"""One replica's log on its disk: batches, segments, indexes, epochs, producer state, recovery, and the simulated disk.

May import: replica, replica.log.batches, replica.log.files, replica.log.producers.
Open first: log.py.
"""

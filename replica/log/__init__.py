"""One replica's log on its disk: record batches, segments, indexes, epochs, producer state, recovery; and
the simulated disk below it.

May import: replica, replica.log.batches, replica.log.files, replica.log.producers.
Open first: log.py.
"""

"""One replica's log on its disk: record batches, segments, indexes, epochs, producer state, recovery; and
the simulated disk below it.

May import: replica.
Open first: log.py.
"""

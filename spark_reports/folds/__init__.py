"""Tables from the ordered events of each partition, in plain Python or numpy, which Spark runs in its workers.

It may import: the standard library, pyarrow and numpy, no other room, for it travels to workers that have nothing else
of Highwater. Open first: slices.py, events.py and written.py (how events come and rows go), then timeline.py;
for what needs all events of a record, exchange.py and fates.py; for the way rows take between tasks, parcels.py.
"""

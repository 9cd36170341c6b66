"""State machines over the ordered events of one partition: plain Python, which Spark runs in its workers.

It may import: the standard library and pyarrow, no other room, for it travels to workers that have nothing else of
Highwater. Open first: rows.py (how events come and rows go), then hw_stalls.py.
"""

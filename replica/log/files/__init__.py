"""Files of a log directory: the simulated disk and its speed, open files, slices to send, checkpoints.

May import: replica, replica.log.batches.
Open first: disk.py.
"""

"""The producer state of a log: sequence numbers, open and aborted transactions, snapshots, verification.

May import: replica, replica.log.batches, replica.log.files.
Open first: producer_state.py.
"""

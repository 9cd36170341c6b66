"""From the log of one partition of the topic of transactions back to the transactional ids that are kept in it.

source: TransactionStateManager.loadTransactionMetadata
"""

from __future__ import annotations

from cluster.transactions.records import read_transaction_key, read_transaction_value
from cluster.transactions.transaction import TransactionMetadata
from replica.errors import PeerViolation


class TransactionReplay:
    """Takes the records in the order of the log; the last one of each id that can be read counts.

    unreadable: records that are damaged, or of a version that this broker does not know; they are passed over
    """

    def __init__(self) -> None:
        self.transactions: dict[str, TransactionMetadata] = {}
        self.unreadable = 0

    def record(self, key: bytes | None, value: bytes | None) -> None:
        try:
            transactional_id = read_transaction_key(b"" if key is None else key)
            if transactional_id is None:
                self.unreadable += 1
            elif value is None:
                self.transactions.pop(transactional_id, None)
            else:
                self.transactions[transactional_id] = read_transaction_value(transactional_id, value)
        except PeerViolation:
            self.unreadable += 1

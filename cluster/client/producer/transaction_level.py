"""Which transactions a producer makes: those of KIP-98, or those of KIP-890's second part (transaction.version 2).

With level 2 producing adds a partition, each end of a transaction gives the next epoch, and newer versions of three
requests say so. The brokers tell the level (api_versions.py); a producer looks at it when it starts and at each end.

source: TransactionManager.java (maybeUpdateTransactionV2Enabled, handleCoordinatorReady)
"""

from __future__ import annotations

from typing import Final

from cluster.client.api_versions import NO_FEATURES_EPOCH, SPOKEN, Allowed, ApiVersions
from cluster.protocol.versions import END_TXN, INIT_PRODUCER_ID, PRODUCE, TXN_OFFSET_COMMIT
from controller.features import TRANSACTION_VERSION, TRANSACTIONS_V2

LAST_BEFORE_V2: Final = {PRODUCE: 11, END_TXN: 4, TXN_OFFSET_COMMIT: 4}
"""source: LAST_STABLE_VERSION_BEFORE_TRANSACTION_V2 of each request"""
FIRST_WITH_GROUP_METADATA: Final = 3
"""Of TxnOffsetCommit (KIP-447). source: TxnOffsetCommitRequest.Builder.build"""
FIRST_THAT_GIVES_EPOCHS: Final = 3
"""Of InitProducerId: a producer can ask for the next epoch (KIP-360)."""


class TransactionLevel:
    """is_v2: of the next transaction, and of the one in progress     ends_as_v2: of the one that ends"""

    def __init__(self, versions: ApiVersions) -> None:
        self.is_v2 = self.ends_as_v2 = False
        self._versions = versions
        self._features_epoch = NO_FEATURES_EPOCH
        self._coordinator_gives_epochs = False

    def learn(self) -> None:
        """Take over the level, if a broker has told a newer one."""
        if self._features_epoch < self._versions.features_epoch:
            self._features_epoch = self._versions.features_epoch
            self.is_v2 = self._versions.features.get(TRANSACTION_VERSION, 0) >= TRANSACTIONS_V2

    def end(self) -> bool:
        """The transaction ends as it was; the next one has the level that is known now. returns: whether that is new

        source: beginCompletingTransaction
        """
        self.ends_as_v2 = self.is_v2
        self.learn()
        return self.is_v2 and not self.ends_as_v2

    def coordinator_is(self, node_id: int) -> None:
        """It is ready."""
        highest = self._versions.of(node_id).highest(INIT_PRODUCER_ID)
        self._coordinator_gives_epochs = highest >= FIRST_THAT_GIVES_EPOCHS

    @property
    def survives_gaps(self) -> bool:
        """The producer gets another epoch after an error, and can go on. source: canHandleAbortableError"""
        return self._coordinator_gives_epochs or self.is_v2

    @property
    def asks_for_epochs(self) -> bool:
        """It gets one only if it asks. source: needToTriggerEpochBumpFromClient"""
        return self._coordinator_gives_epochs and not self.is_v2

    def produces(self) -> Allowed:
        return self._allowed(PRODUCE, is_v2=self.is_v2)

    def ends(self) -> Allowed:
        return self._allowed(END_TXN, is_v2=self.ends_as_v2)

    def commits_offsets(self, *, names_member: bool) -> Allowed:
        allowed = self._allowed(TXN_OFFSET_COMMIT, is_v2=self.is_v2)
        return allowed._replace(oldest=FIRST_WITH_GROUP_METADATA) if names_member else allowed

    def _allowed(self, api_key: int, *, is_v2: bool) -> Allowed:
        oldest, latest = SPOKEN[api_key]
        return Allowed(oldest, latest if is_v2 else LAST_BEFORE_V2[api_key])

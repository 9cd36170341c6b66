"""The releases of Kafka that eras are modelled on, and the features that brokers of each know.

source: MetadataVersion.java, EligibleLeaderReplicasVersion.java, GroupVersion.java, TransactionVersion.java
"""

from __future__ import annotations

from typing import Final, NamedTuple

RELEASES: Final = ("0.8", "0.10", "0.11", "2.0", "2.1", "2.7", "3.3", "3.5", "3.9", "4.1")
"""From the oldest to the newest: the last patch of each; from 3.3 on with KRaft."""


class Feature(NamedTuple):
    """A feature known to brokers of a release, from level `low` to `high`, and the level of the cluster."""

    name: str
    low: int
    high: int
    level: int


_METADATA_LEVELS: Final = {"3.3": (1, 7), "3.5": (1, 11), "3.9": (1, 21), "4.1": (7, 27)}
"""Of metadata.version: the lowest and the newest of a release. source: MetadataVersion.java"""
FIRST_WITH_ELR: Final = "4.1"


def features(release: str, *, elr: bool, transactions: str, groups: str) -> tuple[Feature, ...]:
    """By name. Before KRaft there are none that a client could use (KIP-584). elr, transactions, groups: the rules

    Simplified: only those that have an effect here; Kafka 4.1 also has kraft.version, share.version and
    streams.version.
    """
    if release not in _METADATA_LEVELS:
        return ()
    low, high = _METADATA_LEVELS[release]
    metadata = Feature("metadata.version", low, high, high)
    if release != FIRST_WITH_ELR:
        return (metadata,)
    group_version = Feature("group.version", 0, 1, int(groups == "consumer"))
    # Level 2 is KIP-890's second part; level 1 writes the state of transactions in a flexible version (KIP-915).
    transactions_level = 2 if transactions == "v2" else 0
    return (
        Feature("eligible.leader.replicas.version", 0, 1, int(elr)),
        group_version,
        metadata,
        Feature("transaction.version", 0, 2, transactions_level),
    )

"""The releases of Kafka that eras are modelled on, and the features that brokers of each know.

source: MetadataVersion.java, EligibleLeaderReplicasVersion.java, GroupVersion.java, TransactionVersion.java
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from replica.rules import Rules

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
METADATA_VERSION: Final = "metadata.version"
ELR_VERSION: Final = "eligible.leader.replicas.version"
GROUP_VERSION: Final = "group.version"
TRANSACTION_VERSION: Final = "transaction.version"
FIRST_INCOMPATIBLE: Final = 23
"""The newest level of metadata.version that has changed the metadata: from there on none below can be gone back to.
source: MetadataVersion.checkIfMetadataChanged"""
FIRST_WITH_ELR: Final = "4.1"


def features(release: str, *, elr: bool, transactions: str, groups: str) -> tuple[Feature, ...]:
    """By name. Before KRaft there are none that a client could use (KIP-584). elr, transactions, groups: the rules

    A rule that is newer than its release of KRaft brings its feature along.

    Simplified: only those that have an effect here; Kafka 4.1 also has kraft.version, share.version and
    streams.version.
    """
    if release not in _METADATA_LEVELS:
        return ()
    low, high = _METADATA_LEVELS[release]
    metadata = Feature(METADATA_VERSION, low, high, high)
    # Level 2 is KIP-890's second part; level 1 writes the state of transactions in a flexible version (KIP-915).
    transaction_version = Feature(TRANSACTION_VERSION, 0, 2, 2 if transactions == "v2" else 0)
    if release != FIRST_WITH_ELR:
        return (metadata, transaction_version) if transaction_version.level else (metadata,)
    group_version = Feature(GROUP_VERSION, 0, 1, int(groups == "consumer"))
    return (Feature(ELR_VERSION, 0, 1, int(elr)), group_version, metadata, transaction_version)


def finalized(rules: Rules, levels: Mapping[str, int]) -> tuple[Feature, ...]:
    """The features of a cluster, by name. levels: as they were set while it ran; the others are those of its rules"""
    known = features(rules.release, elr=rules.elr, transactions=rules.transactions, groups=rules.group_rebalance)
    return tuple(one._replace(level=levels.get(one.name, one.level)) for one in known)


def level_of(name: str, rules: Rules, levels: Mapping[str, int]) -> int:
    """0 for a feature that brokers of the era do not know."""
    return next((one.level for one in finalized(rules, levels) if one.name == name), 0)

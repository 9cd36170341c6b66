"""Features of clusters (KIP-584): the levels that each release supports, and the checks of a change of levels.
Source: FeatureControlManager.updateFeature, QuorumFeatures.reasonNotSupported, MetadataVersion.java,
EligibleLeaderReplicasVersion.java, GroupVersion.java, KRaftVersion.java, TransactionVersion.java
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from controller.metadata import KRAFT_VERSION
from replica.rules import KafkaRelease, Rules, as_of


class Feature(NamedTuple):
    """A feature that brokers of a release support from level `low` to `high`, and its level in the cluster."""

    name: str
    low: int
    high: int
    level: int


_METADATA_LEVELS: Final[Mapping[KafkaRelease, tuple[int, int] | None]] = {
    KafkaRelease(3, 3): (1, 7),
    KafkaRelease(3, 5): (1, 11),
    KafkaRelease(3, 9): (1, 21),
    KafkaRelease(4, 1): (7, 27),
    KafkaRelease(4, 2): (7, 29),
    KafkaRelease(4, 3): (7, 30),
    KafkaRelease(4, 4): (7, 33),
}
"""Lowest and highest level of metadata.version, by the first release with these levels. Source: MetadataVersion.java"""
METADATA_VERSION: Final = "metadata.version"
"""Simplified: the level of this feature has no effect."""
GROUP_VERSION: Final = "group.version"
TRANSACTION_VERSION: Final = "transaction.version"
SHARE_VERSION: Final = "share.version"
STREAMS_VERSION: Final = "streams.version"
_SHARE_LEVELS: Final[Mapping[KafkaRelease, int]] = {KafkaRelease(4, 1): 0, KafkaRelease(4, 2): 1, KafkaRelease(4, 4): 2}
"""Level of share.version in a new cluster."""
DEAD_LETTERS: Final = 2
"""The level of share.version that enables dead letter queues. Source: ShareVersion.supportsShareGroupDLQ"""
TRANSACTIONS_V2: Final = 2
"""The level of transaction.version that enables the second part of KIP-890."""
CHANGED_THE_METADATA: Final = (23, 30, 32, 33)
"""Levels of metadata.version that changed the format of the metadata; downgrades below them are refused.
Source: MetadataVersion.checkIfMetadataChanged (4.1 to 4.4)"""
STREAMS_SINCE: Final = KafkaRelease(4, 2)
"""The first release with streams groups, which are on in a new cluster."""
KRAFT_VERSION_SINCE: Final = KafkaRelease(3, 9)
"""The first release with kraft.version. Level 1 needs voters in the metadata log, so no switch implies it."""
KRAFT_UPGRADE_SINCE: Final = KafkaRelease(4, 1)
"""The first release that upgrades kraft.version from 0 to 1."""
FEATURES_SINCE: Final = KafkaRelease(4, 0)
"""The first release with features for ELR and groups, in which a request changes all features or none (KIP-1022)."""
ELR_VERSION: Final = "eligible.leader.replicas.version"
NAMES: Final = (
    ELR_VERSION,
    GROUP_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    SHARE_VERSION,
    STREAMS_VERSION,
    TRANSACTION_VERSION,
)
"""The names of all features of Kafka 4.1. Source: Feature.PRODUCTION_FEATURES, MetadataVersion, KRaftVersion"""
UNKNOWN, UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = range(4)
"""The codes of FeatureUpdate.UpgradeType."""


def features(release: KafkaRelease, *, elr: bool, transactions: str, groups: str) -> tuple[Feature, ...]:
    """Return the features of a release with these values of the switches (elr, transactions, groups), sorted by name.

    Releases before KRaft have no features for clients (KIP-584). If `transactions` is newer than the release, its
    feature is included.

    Simplified: only features with an effect are returned; Kafka 4.1 also has share.version and streams.version.
    """
    levels = as_of(_METADATA_LEVELS, release, None)
    if levels is None:
        return ()
    low, high = levels
    metadata = Feature(METADATA_VERSION, low, high, high)
    # Level 1 writes the state of transactions in a flexible version (KIP-915).
    level = TRANSACTIONS_V2 if transactions == "v2" else 0
    transaction_version = Feature(TRANSACTION_VERSION, 0, TRANSACTIONS_V2, level)
    quorum = (Feature(KRAFT_VERSION, 0, 1, 0),) if release >= KRAFT_VERSION_SINCE else ()
    if release < FEATURES_SINCE:
        return (*quorum, metadata, *((transaction_version,) if transaction_version.level else ()))
    group_version = Feature(GROUP_VERSION, 0, 1, int(groups == "consumer"))
    share_level = as_of(_SHARE_LEVELS, release, 0)
    share_version = (Feature(SHARE_VERSION, 0, share_level, share_level),) if share_level else ()
    streams_version = (Feature(STREAMS_VERSION, 0, 1, 1),) if release >= STREAMS_SINCE else ()
    elr_version = Feature(ELR_VERSION, 0, 1, int(elr))
    return (elr_version, group_version, *quorum, metadata, *share_version, *streams_version, transaction_version)


def finalized(rules: Rules, levels: Mapping[str, int]) -> tuple[Feature, ...]:
    """Return the features of a cluster, sorted by name.

    Args:
        levels: levels that were set in the running cluster; other features have the level that the rules imply.
    """
    known = features(rules.release, elr=rules.elr, transactions=rules.transactions, groups=rules.group_rebalance)
    return tuple(item._replace(level=levels.get(item.name, item.level)) for item in known)


def level_of(name: str, rules: Rules, levels: Mapping[str, int]) -> int:
    """Return the level of a feature, 0 if the release does not have the feature."""
    return next((item.level for item in finalized(rules, levels) if item.name == name), 0)


def is_elr_enabled(rules: Rules, levels: Mapping[str, int]) -> bool:
    """Return True if the cluster has eligible leader replicas. Source: FeatureControlManager.isElrFeatureEnabled"""
    return levels.get(ELR_VERSION, int(rules.elr)) > 0


def refusal(controller_id: int, feature: Feature | None, name: str, level: int, upgrade_type: int) -> str:
    """Return why the level of a feature may not be changed to `level`, or an empty text if it may.

    Args:
        feature: the feature at its current level; None if the release does not have it.
    """
    why = _why_not(controller_id, feature, level, upgrade_type)
    if why or feature is None:
        return f"Invalid update version {level} for feature {name}. {why}"
    if name == METADATA_VERSION and any(level < changed <= feature.level for changed in CHANGED_THE_METADATA):
        unsafe = "Unsafe metadata downgrade is not supported in this version."
        safe = "Refusing to perform the requested downgrade because it might delete metadata information."
        return f"Invalid metadata.version {level}. {unsafe if upgrade_type == UNSAFE_DOWNGRADE else safe}"
    return ""


def _why_not(controller_id: int, feature: Feature | None, level: int, upgrade_type: int) -> str:
    if upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return "The controller does not support the given upgrade type."
    if level < 0:
        return "A feature version cannot be less than 0."
    if feature is None:
        return f"Local controller {controller_id} does not support this feature."
    if not feature.low <= level <= feature.high:
        return f"Local controller {controller_id} only supports versions {feature.low}-{feature.high}"
    if level < feature.level and upgrade_type == UPGRADE:
        how_else = "setting the upgrade type to either safe or unsafe downgrade"
        return f"Can't downgrade the version of this feature without {how_else}."
    if level > feature.level and upgrade_type != UPGRADE:
        return "Can't downgrade to a newer version."
    if level < feature.level and feature.name == KRAFT_VERSION:
        return "Can't downgrade the version of this feature."
    return ""

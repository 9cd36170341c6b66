"""Features: which levels the nodes of a release know, the levels of a cluster, and whether one may have another.

source: FeatureControlManager.updateFeature, QuorumFeatures.reasonNotSupported, MetadataVersion.java,
EligibleLeaderReplicasVersion.java, GroupVersion.java, TransactionVersion.java
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from replica.rules import Rules


class Feature(NamedTuple):
    """A feature known to brokers of a release, from level `low` to `high`, and the level of the cluster."""

    name: str
    low: int
    high: int
    level: int


_METADATA_LEVELS: Final = {"3.3": (1, 7), "3.5": (1, 11), "3.9": (1, 21), "4.1": (7, 27)}
"""Of metadata.version: the lowest and the newest of a release. source: MetadataVersion.java"""
METADATA_VERSION: Final = "metadata.version"
"""Simplified: nothing here depends on its level."""
GROUP_VERSION: Final = "group.version"
TRANSACTION_VERSION: Final = "transaction.version"
TRANSACTIONS_V2: Final = 2
"""Its level with KIP-890's second part."""
FIRST_INCOMPATIBLE: Final = 23
"""The newest level of metadata.version that has changed the metadata: from there on none below can be gone back to.
source: MetadataVersion.checkIfMetadataChanged"""
FIRST_WITH_ELR: Final = "4.1"
ALL_FEATURES_OR_NONE: Final = ("4.1",)
"""Releases that change all features of a request or none (KIP-1022)."""
ELR_VERSION: Final = "eligible.leader.replicas.version"
NAMES: Final = (
    ELR_VERSION,
    GROUP_VERSION,
    "kraft.version",
    METADATA_VERSION,
    "share.version",
    "streams.version",
    TRANSACTION_VERSION,
)
"""Of all features that Kafka 4.1 has. source: Feature.PRODUCTION_FEATURES, MetadataVersion, KRaftVersion"""
UNKNOWN, UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = range(4)
"""FeatureUpdate.UpgradeType"""


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
    # Level 1 writes the state of transactions in a flexible version (KIP-915).
    level = TRANSACTIONS_V2 if transactions == "v2" else 0
    transaction_version = Feature(TRANSACTION_VERSION, 0, TRANSACTIONS_V2, level)
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


def is_elr_enabled(rules: Rules, levels: Mapping[str, int]) -> bool:
    """source: FeatureControlManager.isElrFeatureEnabled"""
    return levels.get(ELR_VERSION, int(rules.elr)) > 0


def refusal(controller_id: int, feature: Feature | None, name: str, level: int, upgrade_type: int) -> str:
    """Why a feature may not have that level; empty: it may.     feature: None if the release does not know it"""
    why = _why_not(controller_id, feature, level, upgrade_type)
    if why or feature is None:
        return f"Invalid update version {level} for feature {name}. {why}"
    if name == METADATA_VERSION and level < FIRST_INCOMPATIBLE <= feature.level:
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
    return ""

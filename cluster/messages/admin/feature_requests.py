"""UpdateFeatures between its message and the controller: which levels a feature may have.

source: FeatureControlManager.updateFeatures, QuorumController.updateFeatures, QuorumFeatures.reasonNotSupported
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cluster.messages.admin.requests import AdminRequest, Entry, RequestEntries, error_fields, refused
from cluster.protocol.entities import Entity
from cluster.protocol.eras import ELR_VERSION, FIRST_INCOMPATIBLE, METADATA_VERSION, TRANSACTION_VERSION, Feature
from controller.inputs import SetFeatureLevels, SingleReply
from replica.errors import ErrorCode

UNKNOWN, UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = range(4)
"""FeatureUpdate.UpgradeType"""
MESSAGE = "The update failed for all features since the following feature had an error: "


def update_features(asked: AdminRequest) -> RequestEntries:
    """From 4.0 on all or none, with one error for all (KIP-1022)."""
    known = {one.name: one for one in asked.features}
    updates = {str(one.feature): one for one in asked.request.feature_updates}
    found = {name: _refusal(asked, known, one) for name, one in updates.items()}
    all_or_none = TRANSACTION_VERSION in known
    first = next((message for message in found.values() if message), "")
    if first and all_or_none:
        entries = [Entry(None, refused(ErrorCode.INVALID_UPDATE_VERSION, MESSAGE + first))]
    else:
        entries = [_entry(asked, name, int(one.max_version_level), found[name]) for name, one in updates.items()]

    def values(replies: Sequence[SingleReply]) -> dict[str, object]:
        if first and all_or_none:
            return error_fields(replies[0])
        told = zip(entries, replies, strict=True)
        results = [{"feature": entry.name, **error_fields(reply)} for entry, reply in told]
        return {"error_code": ErrorCode.NONE, "error_message": None, "results": results}

    return RequestEntries(entries, values)


def _entry(asked: AdminRequest, name: str, level: int, refusal: str) -> Entry:
    if refusal:
        return Entry(name, refused(ErrorCode.INVALID_UPDATE_VERSION, refusal))
    validate_only = bool(getattr(asked.request, "validate_only", False))
    return Entry(name, SetFeatureLevels(now_us=asked.now_us, levels={name: level}, validate_only=validate_only))


def _refusal(asked: AdminRequest, known: Mapping[str, Feature], update: Entity) -> str:
    """Empty: the feature may have that level."""
    name, level, how = str(update.feature), int(update.max_version_level), _upgrade_type(update)
    why = _why_not(asked.image.node_id, known.get(name), level, how)
    if why:
        return f"Invalid update version {level} for feature {name}. {why}"
    if name == METADATA_VERSION and level < FIRST_INCOMPATIBLE <= known[name].level:
        unsafe = "Unsafe metadata downgrade is not supported in this version."
        safe = "Refusing to perform the requested downgrade because it might delete metadata information."
        return f"Invalid metadata.version {level}. {unsafe if how == UNSAFE_DOWNGRADE else safe}"
    return ""


def _why_not(controller_id: int, feature: Feature | None, level: int, how: int) -> str:
    if how not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return "The controller does not support the given upgrade type."
    if level < 0:
        return "A feature version cannot be less than 0."
    if feature is None:
        return f"Local controller {controller_id} does not support this feature."
    if not feature.low <= level <= feature.high:
        return f"Local controller {controller_id} only supports versions {feature.low}-{feature.high}"
    if level < feature.level and how == UPGRADE:
        how_else = "setting the upgrade type to either safe or unsafe downgrade"
        return f"Can't downgrade the version of this feature without {how_else}."
    if level > feature.level and how != UPGRADE:
        return "Can't downgrade to a newer version."
    if feature.name == ELR_VERSION and level != feature.level:
        # Differs from Kafka: whether there is an ELR follows from the rules of a run, by which it is judged.
        return "Here the level follows from the rules: begin a cluster with another profile or other rules."
    return ""


def _upgrade_type(update: Entity) -> int:
    if hasattr(update, "upgrade_type"):
        return int(update.upgrade_type)
    return SAFE_DOWNGRADE if update.allow_downgrade else UPGRADE

"""Converts UpdateFeatures and UnregisterBroker requests to controller inputs, and replies to responses.

Source: FeatureControlManager.updateFeatures, QuorumController.updateFeatures, ControllerApis.handleUnregisterBroker
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cluster.messages.admin.requests import AdminRequest, Entry, RequestEntries, error_fields
from cluster.protocol.entities import Entity
from controller.features import SAFE_DOWNGRADE, UPGRADE
from controller.inputs import ChangeFeatureLevels, SingleReply, UnregisterBroker
from replica.errors import ErrorCode

MESSAGE = "The update failed for all features since the following feature had an error: "


def update_features(asked: AdminRequest) -> RequestEntries:
    """Return the feature updates in a request.

    From 4.0 on they succeed or fail together, with one error for all (KIP-1022).
    """
    updates = {str(feature_update.feature): feature_update for feature_update in asked.request.feature_updates}
    if asked.all_features_or_none:
        entries = [Entry(None, _input(asked, updates))]
    else:
        entries = [Entry(name, _input(asked, {name: item})) for name, item in updates.items()]

    def values(replies: Sequence[SingleReply]) -> dict[str, object]:
        if asked.all_features_or_none:
            (reply,) = replies
            if reply.error is not ErrorCode.NONE:
                return {"error_code": reply.error, "error_message": MESSAGE + reply.message}
            replies = [reply for _ in updates]
        results = [{"feature": name, **error_fields(reply)} for name, reply in zip(updates, replies, strict=True)]
        return {"error_code": ErrorCode.NONE, "error_message": None, "results": results}

    return RequestEntries(entries, values)


def _input(asked: AdminRequest, updates: Mapping[str, Entity]) -> ChangeFeatureLevels:
    return ChangeFeatureLevels(
        now_us=asked.now_us,
        levels={name: int(item.max_version_level) for name, item in updates.items()},
        upgrade_types={name: _upgrade_type(item) for name, item in updates.items()},
        validate_only=bool(getattr(asked.request, "validate_only", False)),
    )


def _upgrade_type(update: Entity) -> int:
    if hasattr(update, "upgrade_type"):
        return int(update.upgrade_type)
    return SAFE_DOWNGRADE if update.allow_downgrade else UPGRADE


def unregister_broker(asked: AdminRequest) -> RequestEntries:
    entry = Entry(None, UnregisterBroker(now_us=asked.now_us, broker_id=int(asked.request.broker_id)))

    def values(replies: Sequence[SingleReply]) -> dict[str, object]:
        (reply,) = replies
        return {"error_code": reply.error, "error_message": None}

    return RequestEntries([entry], values)

"""UpdateFeatures (57): the levels of features of the whole cluster (KIP-584).

0  a level may be lowered
1  how: a safe or an unsafe downgrade; or only a check (KIP-778)
2  all features or none: one error for the whole answer (KIP-1022)

source: FeatureControlManager.updateFeatures, QuorumController.updateFeatures
"""

from __future__ import annotations

from cluster.broker.apis.api import Api, BrokerParts, Values
from cluster.broker.apis.refusals import NOT_HERE, Refused, always
from cluster.node import ConnectionId
from cluster.protocol import cold
from cluster.protocol.entities import Entity
from cluster.protocol.eras import features
from cluster.protocol.headers import RequestHeader
from cluster.protocol.versions import UPDATE_FEATURES
from cluster.server.responder import Handler
from replica.errors import ErrorCode

UNKNOWN, UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = range(4)
"""FeatureUpdate.UpgradeType"""
ALL_OR_NONE = ("4.1",)
"""Releases whose answer has one error for all features."""
MESSAGE = "The update failed for all features since the following feature had an error: "


class UpdateFeatures:
    """Differs from Kafka: levels follow from the era and its rules. A request for those that hold is granted, by the
    broker itself; others are refused as Kafka refuses them, and where it would not, since rules do not change here.
    """

    def __init__(self, broker: BrokerParts) -> None:
        rules = broker.rules
        self._who = f"Broker {broker.identity.broker_id}"
        known = features(rules.release, elr=rules.elr, transactions=rules.transactions, groups=rules.group_rebalance)
        self._features = {one.name: one for one in known}
        self._all_or_none = rules.release in ALL_OR_NONE
        self._answer = broker.responder.answer

    def __call__(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        request = cold.decode_request(header, frame)
        found = {str(one.feature): self._refusal(one) for one in request.feature_updates}
        refused = next((message for message in found.values() if message), "")
        if refused and self._all_or_none:
            code = ErrorCode.INVALID_UPDATE_VERSION
            self._answer(connection, header, error_code=code, error_message=MESSAGE + refused)
            return
        results = [{"feature": name, **_result(message)} for name, message in found.items()]
        self._answer(connection, header, error_code=ErrorCode.NONE, error_message=None, results=results)

    def _refusal(self, update: Entity) -> str:
        """Empty: the level is what it is to be."""
        name, level = str(update.feature), int(update.max_version_level)
        why = self._why_not(name, level, _upgrade_type(update))
        return f"Invalid update version {level} for feature {name}. {why}" if why else ""

    def _why_not(self, name: str, level: int, upgrade_type: int) -> str:
        known = self._features.get(name)
        if upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
            return "The controller does not support the given upgrade type."
        if level < 0:
            return "A feature version cannot be less than 0."
        if known is None:
            return f"{self._who} does not support this feature."
        if not known.low <= level <= known.high:
            return f"{self._who} only supports versions {known.low}-{known.high}"
        if level < known.level and upgrade_type == UPGRADE:
            how = "setting the upgrade type to either safe or unsafe downgrade"
            return f"Can't downgrade the version of this feature without {how}."
        if level > known.level and upgrade_type != UPGRADE:
            return "Can't downgrade to a newer version."
        if level != known.level:
            return "Here the level follows from the era: begin a cluster with another profile or other rules."
        return ""


def _upgrade_type(update: Entity) -> int:
    if hasattr(update, "upgrade_type"):
        return int(update.upgrade_type)
    return SAFE_DOWNGRADE if update.allow_downgrade else UPGRADE


def _result(message: str) -> Values:
    code = ErrorCode.INVALID_UPDATE_VERSION if message else ErrorCode.NONE
    return {"error_code": code, "error_message": message or None}


def _serve(broker: BrokerParts) -> Handler:
    """Refused in the ZooKeeper era, which has no feature that a client could use."""
    return UpdateFeatures(broker) if broker.plane.zookeeper is None else Refused(always(NOT_HERE))(broker)


API = Api(
    key=UPDATE_FEATURES,
    highest={"2.7": 0, "3.3": 1, "3.5": 1, "3.9": 1, "4.1": 2},
    serve=_serve,
)

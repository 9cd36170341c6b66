"""The records of the metadata log: the controller's decisions, in order; brokers follow this log and nothing else.

A record is a frozen dataclass named in the past tense. Offset and record together are all there is: a broker epoch is
the offset of a registration, leader and partition epochs follow from counting changes (image.py).
Source: metadata/src/main/resources/common/metadata/*.json (RegisterBrokerRecord, PartitionChangeRecord, ...).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple
from uuid import UUID

from replica.errors import PeerViolation
from replica.frozen import dataclass
from replica.ids import BrokerEpoch, BrokerId, LeaderEpoch, PartitionEpoch

QuotaEntity = tuple[tuple[str, str | None], ...]
"""Whose quota: (type, name) in the order of types, `user` or `client-id`; the name None is the default of the type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderChangeMessage:
    """The first record of each epoch of the quorum; it says nothing of the cluster."""

    # Simplified: an ordinary record; in Kafka a control batch that only the quorum reads.

    leader_id: BrokerId
    controller_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotHeaderRecord:
    """The first record of a snapshot; when the last record it covers was written, in ms."""

    # Simplified: header and footer, too, are ordinary records, in Kafka control batches.

    last_contained_log_timestamp: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFooterRecord:
    """The last record of a snapshot that is complete."""


class Endpoint(NamedTuple):
    """Where a broker is reached by one of its listeners.     protocol: SecurityProtocol.name, as SASL_SSL"""

    name: str
    host: str
    port: int
    protocol: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerRecord:
    """One incarnation of a broker process, or an amendment of it (which keeps the epoch).

    log_dirs: ids of the directories that are online, of a broker that has several
    endpoints: of the listeners beside the one at host and port, which is that between brokers
    """

    broker_id: BrokerId
    incarnation_id: str
    broker_epoch: BrokerEpoch
    rack: str | None = None
    host: str
    port: int
    fenced: bool = True
    in_controlled_shutdown: bool = False
    log_dirs: tuple[str, ...] | None = None
    endpoints: tuple[Endpoint, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistrationChangeRecord:
    """None leaves a field as it is."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    fenced: bool | None = None
    in_controlled_shutdown: bool | None = None
    log_dirs: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterBrokerRecord:
    broker_id: BrokerId
    broker_epoch: BrokerEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaDirectoryRecord:
    """The log directory of a replica.

    Differs from Kafka, where it is a field of PartitionChangeRecord, so that it moves the partition epoch.
    """

    broker_id: BrokerId
    topic: str
    partition: int
    log_dir: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecord:
    """The topic and its ConfigRecords: `config` holds every key that differs from Kafka's own default."""

    name: str
    topic_id: UUID
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveTopicRecord:
    name: str
    topic_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigRecord:
    """Of one topic; a value of None takes the key back to its default."""

    topic: str
    key: str
    value: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfigRecord:
    """ConfigRecord of a broker or of all (KIP-226); None takes the key back to what it was at the start."""

    broker_id: BrokerId
    key: str
    value: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfigRecord:
    """ConfigRecord of a group of members (KIP-848); None takes the key back to what the brokers have."""

    group: str
    key: str
    value: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureLevelRecord:
    """The level of a feature of the cluster (KIP-584)."""

    # Simplified: levels that nothing has changed are in no record, and follow from the rules.

    name: str
    feature_level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientQuotaRecord:
    """One quota of a user, a client-id or both (KIP-546); None takes it away."""

    entity: QuotaEntity
    key: str
    value: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdsRecord:
    """A broker owns the block of producer ids that ends below `next_producer_id` (KIP-730)."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    next_producer_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRecord:
    """The whole registration of a partition that is new, or in a snapshot; None stands for empty."""

    topic: str
    partition: int
    replicas: tuple[BrokerId, ...]
    in_sync_replicas: tuple[BrokerId, ...]
    leader: BrokerId
    leader_epoch: LeaderEpoch = 0
    partition_epoch: PartitionEpoch = 0
    recovering: bool = False
    elr: tuple[BrokerId, ...] | None = None
    last_known_elr: tuple[BrokerId, ...] | None = None
    adding_replicas: tuple[BrokerId, ...] | None = None
    removing_replicas: tuple[BrokerId, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChangeRecord:
    """None leaves a field as it is; a leader that is set, even to the same, is a new epoch."""

    topic: str
    partition: int
    in_sync_replicas: tuple[BrokerId, ...] | None = None
    leader: BrokerId | None = None
    replicas: tuple[BrokerId, ...] | None = None
    recovering: bool | None = None
    elr: tuple[BrokerId, ...] | None = None
    last_known_elr: tuple[BrokerId, ...] | None = None
    adding_replicas: tuple[BrokerId, ...] | None = None
    removing_replicas: tuple[BrokerId, ...] | None = None

    @property
    def is_no_op(self) -> bool:
        return self == PartitionChangeRecord(topic=self.topic, partition=self.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearElrRecord:
    """The topic's min.insync.replicas has changed: its ELRs, based on the old value, are void (KAFKA-16540)."""

    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UserScramCredentialRecord:
    """What a user can prove a password with, and not the password (KIP-900). mechanism: as in ScramMechanism.type

    salt, stored_key, server_key: hexadecimal
    """

    name: str
    mechanism: int
    salt: str
    stored_key: str
    server_key: str
    iterations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveUserScramCredentialRecord:
    name: str
    mechanism: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessControlEntryRecord:
    """One rule of who may do what (KIP-801); the fields after the id as in `controller/access.py:Acl`."""

    id: UUID
    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveAccessControlEntryRecord:
    id: UUID


MetadataRecord = (
    LeaderChangeMessage
    | SnapshotHeaderRecord
    | SnapshotFooterRecord
    | RegisterBrokerRecord
    | BrokerRegistrationChangeRecord
    | UnregisterBrokerRecord
    | ReplicaDirectoryRecord
    | TopicRecord
    | RemoveTopicRecord
    | ConfigRecord
    | BrokerConfigRecord
    | GroupConfigRecord
    | FeatureLevelRecord
    | ClientQuotaRecord
    | ProducerIdsRecord
    | PartitionRecord
    | PartitionChangeRecord
    | ClearElrRecord
    | UserScramCredentialRecord
    | RemoveUserScramCredentialRecord
    | AccessControlEntryRecord
    | RemoveAccessControlEntryRecord
)

_RECORD_CLASSES: Final[Mapping[str, Callable[..., MetadataRecord]]] = {
    "LeaderChange": LeaderChangeMessage,
    "SnapshotHeader": SnapshotHeaderRecord,
    "SnapshotFooter": SnapshotFooterRecord,
    "BrokerRegistered": RegisterBrokerRecord,
    "BrokerChanged": BrokerRegistrationChangeRecord,
    "BrokerUnregistered": UnregisterBrokerRecord,
    "ReplicaPlaced": ReplicaDirectoryRecord,
    "TopicCreated": TopicRecord,
    "TopicDeleted": RemoveTopicRecord,
    "ConfigChanged": ConfigRecord,
    "BrokerConfigChanged": BrokerConfigRecord,
    "GroupConfigChanged": GroupConfigRecord,
    "FeatureLevelSet": FeatureLevelRecord,
    "ClientQuotaChanged": ClientQuotaRecord,
    "ProducerIdsAllocated": ProducerIdsRecord,
    "PartitionCreated": PartitionRecord,
    "PartitionChanged": PartitionChangeRecord,
    "ElrCleared": ClearElrRecord,
    "ScramCredentialSet": UserScramCredentialRecord,
    "ScramCredentialRemoved": RemoveUserScramCredentialRecord,
    "AccessControlEntryAdded": AccessControlEntryRecord,
    "AccessControlEntryRemoved": RemoveAccessControlEntryRecord,
}
"""By the `type` that a record bears in the log, which is the disk's format and no class's name."""
_TYPES: Final = {record_class: name for name, record_class in _RECORD_CLASSES.items()}

_FROM_JSON: Final[Mapping[str, Callable[[Any], Any]]] = {
    "id": UUID,
    "topic_id": UUID,
    "replicas": tuple,
    "in_sync_replicas": tuple,
    "elr": tuple,
    "last_known_elr": tuple,
    "adding_replicas": tuple,
    "removing_replicas": tuple,
    "log_dirs": tuple,
    "endpoints": lambda rows: tuple(Endpoint(*row) for row in rows),
    "entity": lambda pairs: tuple((kind, name) for kind, name in pairs),
}

_ENCODER: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=str)
"""Made once: a topic of 10,000 partitions has as many records."""


def encode_record(record: MetadataRecord) -> bytes:
    """Canonical JSON: the same record is the same bytes in every process. Unset (None) fields are left out."""
    # Differs from Kafka: JSON instead of the generated binary records, so that a metadata log can be read by eye.
    names = record.__dataclass_fields__
    fields = {name: value for name in names if (value := getattr(record, name)) is not None}
    fields["type"] = _TYPES[type(record)]
    return _ENCODER.encode(fields).encode()


def decode_record(data: bytes | bytearray | memoryview) -> MetadataRecord:
    """raises: PeerViolation if `data` is not a record that this version knows"""
    try:
        fields = json.loads(bytes(data))
        record_class = _RECORD_CLASSES[fields.pop("type")]
        return record_class(**{name: _from_json(name, value) for name, value in fields.items()})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise PeerViolation(f"not a metadata record: {bytes(data)[:80]!r} ({error})") from error


def _from_json(name: str, value: Any) -> Any:
    return _FROM_JSON[name](value) if name in _FROM_JSON else value

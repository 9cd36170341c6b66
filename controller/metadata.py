"""The records of the metadata log: the controller's decisions, in order. Brokers learn decisions only from this log.
A record is a frozen dataclass. Epochs follow from the order of the records: a broker epoch is the offset of a
registration; leader and partition epochs count the changes of a partition (image.py).
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

KRAFT_VERSION: Final = "kraft.version"
QuotaEntity = tuple[tuple[str, str | None], ...]
"""The entity of a quota: pairs of type (`user` or `client-id`) and name, sorted by type. None is the type's default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderChangeMessage:
    """The first record in each epoch of the quorum. It does not change the cluster."""

    # Simplified: an ordinary record; in Kafka a control batch that only the quorum reads.

    leader_id: BrokerId
    controller_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VotersRecord:
    """The voters of the quorum from this record on, committed or not (KIP-853): pairs of id and directory id."""

    # Simplified: kraft.version 1 begins with the first such record, in Kafka with a KRaftVersionRecord beside it; the
    # addresses of the controllers are known to all nodes, in Kafka they are in this record.

    voters: tuple[tuple[BrokerId, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotHeaderRecord:
    """The first record of a snapshot, with the time in ms of the last record that the snapshot covers."""

    # Simplified: header and footer, too, are ordinary records, in Kafka control batches.

    last_contained_log_timestamp: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFooterRecord:
    """The last record of a complete snapshot."""


class Endpoint(NamedTuple):
    """The address of one listener of a broker. `protocol` is a SecurityProtocol name such as SASL_SSL."""

    name: str
    host: str
    port: int
    protocol: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerRecord:
    """The registration of one incarnation of a broker, or a later change of it that keeps the epoch.

    Attributes:
        log_dirs: ids of the online log directories; None if the broker has a single directory that is not new.
        endpoints: the other listeners; `host` and `port` are those of the listener between brokers.
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
    """A change of a broker's registration. A field that is None does not change."""

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

    Differs from Kafka, where the directory is a field of PartitionChangeRecord, so that it changes the partition epoch.
    """

    broker_id: BrokerId
    topic: str
    partition: int
    log_dir: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecord:
    """A new topic, together with its ConfigRecords. `config` has each key whose value differs from Kafka's default."""

    name: str
    topic_id: UUID
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveTopicRecord:
    name: str
    topic_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigRecord:
    """One setting of a topic; a value of None restores the default."""

    topic: str
    key: str
    value: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfigRecord:
    """One dynamic setting of one broker or of all (KIP-226); a value of None restores the static setting."""

    broker_id: BrokerId
    key: str
    value: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfigRecord:
    """One setting of a consumer group (KIP-848); a value of None restores the brokers' setting."""

    group: str
    key: str
    value: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureLevelRecord:
    """The level of a feature of the cluster (KIP-584)."""

    # Simplified: a level that was never changed is in no record; it follows from the rules.

    name: str
    feature_level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientQuotaRecord:
    """One quota of a user, a client id or both (KIP-546); a value of None removes the quota."""

    entity: QuotaEntity
    key: str
    value: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdsRecord:
    """The allocation of the producer ids below `next_producer_id` to a broker (KIP-730)."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    next_producer_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRecord:
    """The complete state of a partition that is new or in a snapshot. None means an empty tuple."""

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
    """A change of a partition.

    A field that is None does not change. If `leader` is set, a new leader epoch begins, even for the same leader.
    """

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
    """A record that clears the ELRs of a topic after a change of its min.insync.replicas (KAFKA-16540)."""

    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UserScramCredentialRecord:
    """The SCRAM credential of a user for one mechanism. It does not contain the password (KIP-900).

    Attributes:
        mechanism: code of the mechanism, as in ScramMechanism.type.
        salt: the salt in hexadecimal, like the two keys.
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
    """One access rule (KIP-801). The fields after the id are those of `controller/access.py:Acl`."""

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
    | VotersRecord
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
    "Voters": VotersRecord,
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
"""Record classes by the `type` that records have in the log. The type does not change when a class is renamed."""
_TYPES: Final = {record_class: name for name, record_class in _RECORD_CLASSES.items()}

_FROM_JSON: Final[Mapping[str, Callable[[Any], Any]]] = {
    "id": UUID,
    "topic_id": UUID,
    "voters": lambda pairs: tuple((voter_id, directory_id) for voter_id, directory_id in pairs),
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
"""The JSON encoder of records, created only once because a topic with 10,000 partitions needs 10,000 records."""


def encode_record(record: MetadataRecord) -> bytes:
    """Encode a record as canonical JSON, so that equal records have equal bytes. Fields that are None are omitted."""
    # Differs from Kafka: JSON instead of the generated binary records, so that a metadata log can be read by eye.
    names = record.__dataclass_fields__
    fields = {name: value for name in names if (value := getattr(record, name)) is not None}
    fields["type"] = _TYPES[type(record)]
    return _ENCODER.encode(fields).encode()


def decode_record(data: bytes | bytearray | memoryview) -> MetadataRecord:
    """Decode a record of the metadata log.

    Raises:
        PeerViolation: if `data` is not a record that this version knows.
    """
    try:
        fields = json.loads(bytes(data))
        record_class = _RECORD_CLASSES[fields.pop("type")]
        return record_class(**{name: _from_json(name, value) for name, value in fields.items()})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise PeerViolation(f"these bytes are not a metadata record: {bytes(data)[:80]!r} ({error})") from error


def _from_json(name: str, value: Any) -> Any:
    return _FROM_JSON[name](value) if name in _FROM_JSON else value

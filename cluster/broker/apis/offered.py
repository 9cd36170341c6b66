"""The APIs and versions that brokers of each release offer clients.

Clients infer a broker's release from its APIs, so all APIs of a release are offered, even those that Highwater does not
implement.

Source: ApiKeys.java and the messages' JSON of each release, ApiVersionsResponse.filterApis
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cluster.protocol import versions
from cluster.protocol.versions import VERSIONS
from replica.rules import PROFILES, KafkaRelease, Rules

Ranges = Mapping[int, tuple[int, int]]
"""(lowest, highest version) by API key."""

RELEASES: Final = tuple(rules.release for rules in PROFILES.values())
"""The Kafka releases that Highwater simulates, oldest first. Brokers use KRaft from 3.3 on."""
_ROWS: Final[Mapping[int, tuple[int | None, ...]]] = {
    # The highest version in each release; the last is of the newest release. A shorter row begins with a later
    # release. None: that release lacks the API.
    versions.PRODUCE: (0, 2, 3, 6, 7, 8, 9, 9, 11, 13, 13, 13, 13),
    versions.FETCH: (0, 3, 5, 8, 10, 12, 13, 15, 17, 18, 18, 18, 18),
    versions.LIST_OFFSETS: (0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 11, 11),
    versions.METADATA: (0, 2, 4, 6, 7, 9, 12, 12, 12, 13, 13, 13, 13),
    versions.OFFSET_COMMIT: (1, 2, 3, 4, 6, 8, 8, 8, 9, 9, 10, 10, 10),
    versions.OFFSET_FETCH: (1, 2, 3, 4, 5, 7, 8, 8, 9, 9, 10, 10, 10),
    versions.FIND_COORDINATOR: (0, 0, 1, 2, 2, 3, 4, 4, 6, 6, 6, 6, 6),
    versions.JOIN_GROUP: (1, 2, 3, 3, 7, 9, 9, 9, 9, 9, 9, 9),
    versions.HEARTBEAT: (0, 1, 2, 2, 4, 4, 4, 4, 4, 4, 4, 4),
    versions.LEAVE_GROUP: (0, 1, 2, 2, 4, 5, 5, 5, 5, 5, 5, 5),
    versions.SYNC_GROUP: (0, 1, 2, 2, 5, 5, 5, 5, 5, 5, 5, 5),
    versions.DESCRIBE_GROUPS: (0, 1, 2, 2, 5, 5, 5, 5, 6, 6, 6, 6),
    versions.LIST_GROUPS: (0, 1, 2, 2, 4, 4, 4, 5, 5, 5, 5, 5),
    versions.SASL_HANDSHAKE: (0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1),
    versions.API_VERSIONS: (0, 0, 1, 2, 2, 3, 3, 3, 4, 4, 4, 4, 5),
    versions.CREATE_TOPICS: (1, 2, 3, 3, 6, 7, 7, 7, 7, 7, 7, 7),
    versions.DELETE_TOPICS: (0, 1, 2, 3, 5, 6, 6, 6, 6, 6, 6, 6),
    versions.DELETE_RECORDS: (0, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2),
    versions.INIT_PRODUCER_ID: (0, 1, 1, 4, 4, 4, 5, 5, 5, 5, 5),
    versions.OFFSET_FOR_LEADER_EPOCH: (0, 1, 2, 3, 4, 4, 4, 4, 4, 4, 4),
    versions.ADD_PARTITIONS_TO_TXN: (0, 1, 1, 2, 3, 3, 5, 5, 5, 5, 5),
    versions.ADD_OFFSETS_TO_TXN: (0, 1, 1, 2, 3, 3, 4, 4, 4, 4, 4),
    versions.END_TXN: (0, 1, 1, 2, 3, 3, 4, 5, 5, 5, 5),
    versions.WRITE_TXN_MARKERS: (0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2),
    versions.TXN_OFFSET_COMMIT: (0, 1, 2, 3, 3, 3, 4, 5, 5, 5, 6),
    versions.DESCRIBE_ACLS: (0, 1, 1, 2, 3, 3, 3, 3, 3, 3, 3),
    versions.CREATE_ACLS: (0, 1, 1, 2, 3, 3, 3, 3, 3, 3, 3),
    versions.DELETE_ACLS: (0, 1, 1, 2, 3, 3, 3, 3, 3, 3, 3),
    versions.DESCRIBE_CONFIGS: (0, 2, 2, 3, 4, 4, 4, 4, 4, 4, 4),
    versions.ALTER_CONFIGS: (0, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2),
    versions.ALTER_REPLICA_LOG_DIRS: (1, 1, 1, 2, 2, 2, 2, 2, 2, 2),
    versions.DESCRIBE_LOG_DIRS: (1, 1, 2, 4, 4, 4, 4, 4, 5, 5),
    versions.SASL_AUTHENTICATE: (0, 0, 2, 2, 2, 2, 2, 2, 2, 2),
    versions.CREATE_PARTITIONS: (1, 1, 3, 3, 3, 3, 3, 3, 3, 3),
    versions.CREATE_DELEGATION_TOKEN: (1, 1, 2, None, None, 3, 3, 3, 3, 3),
    versions.RENEW_DELEGATION_TOKEN: (1, 1, 2, None, None, 2, 2, 2, 2, 2),
    versions.EXPIRE_DELEGATION_TOKEN: (1, 1, 2, None, None, 2, 2, 2, 2, 2),
    versions.DESCRIBE_DELEGATION_TOKEN: (1, 1, 2, None, None, 3, 3, 3, 3, 3),
    versions.DELETE_GROUPS: (1, 1, 2, 2, 2, 2, 2, 2, 2, 3),
    versions.ELECT_LEADERS: (2, 2, 2, 2, 2, 2, 2, 2),
    versions.INCREMENTAL_ALTER_CONFIGS: (1, 1, 1, 1, 1, 1, 1, 1),
    versions.ALTER_PARTITION_REASSIGNMENTS: (0, 0, 0, 0, 1, 1, 1, 1),
    versions.LIST_PARTITION_REASSIGNMENTS: (0, 0, 0, 0, 0, 0, 0, 0),
    versions.OFFSET_DELETE: (0, 0, 0, 0, 0, 0, 0, 0),
    versions.DESCRIBE_CLIENT_QUOTAS: (0, 1, 1, 1, 1, 1, 1, 1),
    versions.ALTER_CLIENT_QUOTAS: (0, 1, 1, 1, 1, 1, 1, 1),
    versions.DESCRIBE_USER_SCRAM_CREDENTIALS: (0, None, 0, 0, 0, 0, 0, 0),
    versions.ALTER_USER_SCRAM_CREDENTIALS: (0, None, 0, 0, 0, 0, 0, 0),
    versions.DESCRIBE_QUORUM: (1, 1, 2, 2, 2, 2, 2),
    versions.UPDATE_FEATURES: (0, 1, 1, 1, 2, 2, 2, 2),
    versions.DESCRIBE_CLUSTER: (0, 0, 1, 2, 2, 2, 2),
    versions.DESCRIBE_PRODUCERS: (0, 0, 0, 0, 0, 0, 0),
    versions.UNREGISTER_BROKER: (0, 0, 0, 0, 0, 0, 0),
    versions.DESCRIBE_TRANSACTIONS: (0, 0, 0, 0, 0, 0, 0),
    versions.LIST_TRANSACTIONS: (0, 0, 1, 2, 2, 2, 2),
    versions.CONSUMER_GROUP_HEARTBEAT: (0, 1, 1, 1, 1),
    versions.CONSUMER_GROUP_DESCRIBE: (0, 1, 1, 1, 1),
    versions.LIST_CONFIG_RESOURCES: (0, 1, 1, 1, 1),
    versions.DESCRIBE_TOPIC_PARTITIONS: (0, 0, 0, 0, 0),
    versions.SHARE_GROUP_HEARTBEAT: (1, 1, 1, 1),
    versions.SHARE_GROUP_DESCRIBE: (1, 1, 1, 1),
    versions.SHARE_FETCH: (1, 2, 2, 2),
    versions.SHARE_ACKNOWLEDGE: (1, 2, 2, 2),
    versions.ADD_RAFT_VOTER: (0, 0, 1, 1, 1),
    versions.REMOVE_RAFT_VOTER: (0, 0, 0, 0, 0),
    versions.INITIALIZE_SHARE_GROUP_STATE: (0, 0, 0, 0),
    versions.READ_SHARE_GROUP_STATE: (0, 0, 0, 0),
    versions.WRITE_SHARE_GROUP_STATE: (0, 1, 1, 1),
    versions.DELETE_SHARE_GROUP_STATE: (0, 0, 0, 0),
    versions.READ_SHARE_GROUP_STATE_SUMMARY: (0, 1, 1, 1),
    versions.STREAMS_GROUP_HEARTBEAT: (0, 0, 0),
    versions.STREAMS_GROUP_DESCRIBE: (0, 0, 0),
    versions.DESCRIBE_SHARE_GROUP_OFFSETS: (0, 1, 1, 1),
    versions.ALTER_SHARE_GROUP_OFFSETS: (0, 0, 0, 0),
    versions.DELETE_SHARE_GROUP_OFFSETS: (0, 0, 0, 0),
}
HIGHEST: Final[Mapping[int, Mapping[KafkaRelease, int]]] = {
    key: {release: high for release, high in zip(RELEASES[-len(row) :], row, strict=True) if high is not None}
    for key, row in _ROWS.items()
}
"""Highest version offered to clients, by API key and release; a release without the API has no entry."""

OFFERED_FROM: Final[Mapping[int, int]] = {
    # KAFKA-18659: librdkafka before 2.12 asks whether Produce 0 is offered, and if not it silently stores gzip, snappy
    # and lz4 batches uncompressed. So Produce is offered from 0, as Kafka 4 does, although 0-2 are refused.
    versions.PRODUCE: 0,
}
"""Lowest version offered, by API key, where it is lower than the lowest version that is implemented."""
FIRST_METADATA_WITH_RELIABLE_EPOCHS: Final = 9
"""First Metadata version with leader epochs that a consumer trusts when it validates its positions."""


def offered(release: KafkaRelease) -> Ranges:
    """Return the (lowest, highest) version of each API that brokers of a release offer clients.

    Simplified: records have format 2 in every era (Produce 3, Fetch 4), so 0.8 and 0.10 offer these versions instead of
    older ones, and 0.8 answers ApiVersions, which it lacks. A version that can be decoded is answered even if it is not
    offered. The lowest versions are those of 4.0 and later (KIP-896) in every era.
    """
    ranges = {}
    for key, highest in HIGHEST.items():
        newest = highest.get(release)
        if newest is not None:
            low, high = VERSIONS[key]
            ranges[key] = OFFERED_FROM.get(key, low), min(high, max(newest, low))
    return ranges


def offered_under(rules: Rules) -> Ranges:
    """Return the versions that the rules' release offers, raised where another rule needs newer requests of clients.

    A run may combine an old release with newer rules. See FetcherContext.fetch_version for requests of followers.
    """
    needed = {
        (versions.PRODUCE, 11): rules.transactions in ("verified", "v2"),
        (versions.TXN_OFFSET_COMMIT, 4): rules.transactions in ("verified", "v2"),
        (versions.PRODUCE, 12): rules.transactions == "v2",
        (versions.TXN_OFFSET_COMMIT, 5): rules.transactions == "v2",
        (versions.END_TXN, 5): rules.transactions == "v2",
        (versions.METADATA, FIRST_METADATA_WITH_RELIABLE_EPOCHS): rules.consumer_truncation_check,
        (versions.OFFSET_FOR_LEADER_EPOCH, 3): rules.consumer_truncation_check,
    }
    ranges = dict(offered(rules.release))
    for (key, version), is_needed in needed.items():
        if is_needed:
            low, high = ranges.get(key, VERSIONS[key])
            ranges[key] = low, max(high, version)
    return ranges

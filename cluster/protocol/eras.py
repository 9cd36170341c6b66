"""What brokers of an earlier release offer in ApiVersions: the highest version of every API, by release of an era.

    >>> offered("2.7")[FETCH]            # lowest version spoken here, highest of that release
    (4, 12)
    >>> DESCRIBE_CLUSTER in offered("2.7")
    False

A column is the last patch of its release; from 3.3 on it is a KRaft broker. The lowest versions are those of 4.0 and
later (KIP-896) in every era.
Simplified: records have format 2 in every era (Produce 3, Fetch 4), so 0.8 and 0.10 offer those in place of older ones,
and 0.8, which knows no ApiVersions, answers it. A version that is not offered and can be read is answered all the same.
source: ApiKeys.java and the messages' JSON of each release, ApiVersionsResponse.filterApis
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final, NamedTuple

from cluster.protocol.versions import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    ADD_RAFT_VOTER,
    ADVERTISED,
    ALTER_CLIENT_QUOTAS,
    ALTER_CONFIGS,
    ALTER_PARTITION_REASSIGNMENTS,
    ALTER_REPLICA_LOG_DIRS,
    ALTER_SHARE_GROUP_OFFSETS,
    ALTER_USER_SCRAM_CREDENTIALS,
    API_VERSIONS,
    CONSUMER_GROUP_DESCRIBE,
    CONSUMER_GROUP_HEARTBEAT,
    CREATE_ACLS,
    CREATE_DELEGATION_TOKEN,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_ACLS,
    DELETE_GROUPS,
    DELETE_RECORDS,
    DELETE_SHARE_GROUP_OFFSETS,
    DELETE_SHARE_GROUP_STATE,
    DELETE_TOPICS,
    DESCRIBE_ACLS,
    DESCRIBE_CLIENT_QUOTAS,
    DESCRIBE_CLUSTER,
    DESCRIBE_CONFIGS,
    DESCRIBE_DELEGATION_TOKEN,
    DESCRIBE_GROUPS,
    DESCRIBE_LOG_DIRS,
    DESCRIBE_PRODUCERS,
    DESCRIBE_QUORUM,
    DESCRIBE_SHARE_GROUP_OFFSETS,
    DESCRIBE_TOPIC_PARTITIONS,
    DESCRIBE_TRANSACTIONS,
    DESCRIBE_USER_SCRAM_CREDENTIALS,
    ELECT_LEADERS,
    END_TXN,
    EXPIRE_DELEGATION_TOKEN,
    FETCH,
    FIND_COORDINATOR,
    HEARTBEAT,
    INCREMENTAL_ALTER_CONFIGS,
    INIT_PRODUCER_ID,
    INITIALIZE_SHARE_GROUP_STATE,
    JOIN_GROUP,
    LEAVE_GROUP,
    LIST_CONFIG_RESOURCES,
    LIST_GROUPS,
    LIST_OFFSETS,
    LIST_PARTITION_REASSIGNMENTS,
    LIST_TRANSACTIONS,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_DELETE,
    OFFSET_FETCH,
    OFFSET_FOR_LEADER_EPOCH,
    PRODUCE,
    READ_SHARE_GROUP_STATE,
    READ_SHARE_GROUP_STATE_SUMMARY,
    REMOVE_RAFT_VOTER,
    RENEW_DELEGATION_TOKEN,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    SHARE_ACKNOWLEDGE,
    SHARE_FETCH,
    SHARE_GROUP_DESCRIBE,
    SHARE_GROUP_HEARTBEAT,
    SYNC_GROUP,
    TXN_OFFSET_COMMIT,
    UNREGISTER_BROKER,
    VERSIONS,
    WRITE_SHARE_GROUP_STATE,
)

Ranges = Mapping[int, tuple[int, int]]

RELEASES: Final = ("0.8", "0.10", "0.11", "2.0", "2.1", "2.7", "3.3", "3.5", "3.9", "4.1")
"""In the order of the columns below."""
LACKS = "-"

_HIGHEST: Final[Mapping[int, str]] = {
    # release:                  0.8 .10 .11 2.0 2.1 2.7 3.3 3.5 3.9 4.1
    PRODUCE: "                    0   2   3   6   7   8   9   9  11  13",
    FETCH: "                      0   3   5   8  10  12  13  15  17  18",
    LIST_OFFSETS: "               0   1   2   3   4   5   7   8   9  10",
    METADATA: "                   0   2   4   6   7   9  12  12  12  13",
    OFFSET_COMMIT: "              1   2   3   4   6   8   8   8   9   9",
    OFFSET_FETCH: "               1   2   3   4   5   7   8   8   9   9",
    FIND_COORDINATOR: "           0   0   1   2   2   3   4   4   6   6",
    JOIN_GROUP: "                 -   1   2   3   3   7   9   9   9   9",
    HEARTBEAT: "                  -   0   1   2   2   4   4   4   4   4",
    LEAVE_GROUP: "                -   0   1   2   2   4   5   5   5   5",
    SYNC_GROUP: "                 -   0   1   2   2   5   5   5   5   5",
    DESCRIBE_GROUPS: "            -   0   1   2   2   5   5   5   5   6",
    LIST_GROUPS: "                -   0   1   2   2   4   4   4   5   5",
    API_VERSIONS: "               0   0   1   2   2   3   3   3   4   4",
    CREATE_TOPICS: "              -   1   2   3   3   6   7   7   7   7",
    DELETE_TOPICS: "              -   0   1   2   3   5   6   6   6   6",
    DELETE_RECORDS: "             -   -   0   1   1   2   2   2   2   2",
    INIT_PRODUCER_ID: "           -   -   0   1   1   4   4   4   5   5",
    OFFSET_FOR_LEADER_EPOCH: "    -   -   0   1   2   3   4   4   4   4",
    DESCRIBE_CONFIGS: "           -   -   0   2   2   3   4   4   4   4",
    ALTER_CONFIGS: "              -   -   0   1   1   1   2   2   2   2",
    DESCRIBE_LOG_DIRS: "          -   -   -   1   1   2   4   4   4   4",
    CREATE_PARTITIONS: "          -   -   -   1   1   3   3   3   3   3",
    DELETE_GROUPS: "              -   -   -   1   1   2   2   2   2   2",
    ELECT_LEADERS: "              -   -   -   -   -   2   2   2   2   2",
    INCREMENTAL_ALTER_CONFIGS: "  -   -   -   -   -   1   1   1   1   1",
    ALTER_PARTITION_REASSIGNMENTS: " -  -   -   -   -   0   0   0   0   1",
    LIST_PARTITION_REASSIGNMENTS: " -   -   -   -   -   0   0   0   0   0",
    OFFSET_DELETE: "              -   -   -   -   -   0   0   0   0   0",
    DESCRIBE_QUORUM: "            -   -   -   -   -   -   1   1   2   2",
    DESCRIBE_CLUSTER: "           -   -   -   -   -   -   0   0   1   2",
    DESCRIBE_PRODUCERS: "         -   -   -   -   -   -   0   0   0   0",
    DESCRIBE_TOPIC_PARTITIONS: "  -   -   -   -   -   -   -   -   0   0",
    SASL_HANDSHAKE: "           -   0   0   1   1   1   1   1   1   1",
    ADD_PARTITIONS_TO_TXN: "    -   -   0   1   1   2   3   3   5   5",
    ADD_OFFSETS_TO_TXN: "       -   -   0   1   1   2   3   3   4   4",
    END_TXN: "                  -   -   0   1   1   2   3   3   4   5",
    TXN_OFFSET_COMMIT: "        -   -   0   1   2   3   3   3   4   5",
    DESCRIBE_ACLS: "            -   -   0   1   1   2   3   3   3   3",
    CREATE_ACLS: "              -   -   0   1   1   2   3   3   3   3",
    DELETE_ACLS: "              -   -   0   1   1   2   3   3   3   3",
    ALTER_REPLICA_LOG_DIRS: "   -   -   -   1   1   1   2   2   2   2",
    SASL_AUTHENTICATE: "        -   -   -   0   0   2   2   2   2   2",
    CREATE_DELEGATION_TOKEN: "  -   -   -   1   1   2   -   -   3   3",
    RENEW_DELEGATION_TOKEN: "   -   -   -   1   1   2   -   -   2   2",
    EXPIRE_DELEGATION_TOKEN: "  -   -   -   1   1   2   -   -   2   2",
    DESCRIBE_DELEGATION_TOKEN: " -   -   -   1   1   2   -   -   3   3",
    DESCRIBE_CLIENT_QUOTAS: "   -   -   -   -   -   0   1   1   1   1",
    ALTER_CLIENT_QUOTAS: "      -   -   -   -   -   0   1   1   1   1",
    DESCRIBE_USER_SCRAM_CREDENTIALS: " -   -   -   -   -   0   -   0   0   0",
    ALTER_USER_SCRAM_CREDENTIALS: " -   -   -   -   -   0   -   0   0   0",
    UNREGISTER_BROKER: "        -   -   -   -   -   -   0   0   0   0",
    DESCRIBE_TRANSACTIONS: "    -   -   -   -   -   -   0   0   0   0",
    LIST_TRANSACTIONS: "        -   -   -   -   -   -   0   0   1   2",
    CONSUMER_GROUP_HEARTBEAT: " -   -   -   -   -   -   -   -   0   1",
    CONSUMER_GROUP_DESCRIBE: "  -   -   -   -   -   -   -   -   0   1",
    LIST_CONFIG_RESOURCES: "    -   -   -   -   -   -   -   -   0   1",
    SHARE_GROUP_HEARTBEAT: "    -   -   -   -   -   -   -   -   -   1",
    SHARE_GROUP_DESCRIBE: "     -   -   -   -   -   -   -   -   -   1",
    SHARE_FETCH: "              -   -   -   -   -   -   -   -   -   1",
    SHARE_ACKNOWLEDGE: "        -   -   -   -   -   -   -   -   -   1",
    ADD_RAFT_VOTER: "           -   -   -   -   -   -   -   -   0   0",
    REMOVE_RAFT_VOTER: "        -   -   -   -   -   -   -   -   0   0",
    INITIALIZE_SHARE_GROUP_STATE: " -   -   -   -   -   -   -   -   -   0",
    READ_SHARE_GROUP_STATE: "   -   -   -   -   -   -   -   -   -   0",
    WRITE_SHARE_GROUP_STATE: "  -   -   -   -   -   -   -   -   -   0",
    DELETE_SHARE_GROUP_STATE: " -   -   -   -   -   -   -   -   -   0",
    READ_SHARE_GROUP_STATE_SUMMARY: " -   -   -   -   -   -   -   -   -   0",
    DESCRIBE_SHARE_GROUP_OFFSETS: " -   -   -   -   -   -   -   -   -   0",
    ALTER_SHARE_GROUP_OFFSETS: " -   -   -   -   -   -   -   -   -   0",
    DELETE_SHARE_GROUP_OFFSETS: " -   -   -   -   -   -   -   -   -   0",
}


def highest(key: int, release: str) -> int | None:
    """Highest version of an API in a release, None if that lacks it."""
    cell = _HIGHEST[key].split()[RELEASES.index(release)]
    return None if cell == LACKS else int(cell)


@cache
def offered(release: str) -> Ranges:
    """API key -> (lowest, highest version) that a broker of a release offers clients, of what is spoken here."""
    ranges = {}
    for key, (low, high) in ADVERTISED.items():
        newest = highest(key, release)
        if newest is not None:
            ranges[key] = (low, min(high, max(newest, VERSIONS[key][0])))
    return ranges


# ------------------------------------------------------------------------------------------------------------ features


class Feature(NamedTuple):
    """One that a broker of a release knows, from level `low` to `high`, and the level that its cluster is at."""

    name: str
    low: int
    high: int
    level: int


_METADATA_LEVELS: Final = {"3.3": (1, 7), "3.5": (1, 11), "3.9": (1, 21), "4.1": (7, 27)}
"""Of metadata.version: the lowest and the newest of a release. source: MetadataVersion.java"""
FIRST_WITH_ELR: Final = "4.1"


def features(release: str, *, elr: bool) -> tuple[Feature, ...]:
    """By name. Before KRaft there are none that a client could use (KIP-584).

    Simplified: only those that have an effect here; Kafka 4.1 also has group.version, kraft.version, share.version,
    streams.version and transaction.version.
    """
    if release not in _METADATA_LEVELS:
        return ()
    low, high = _METADATA_LEVELS[release]
    metadata = Feature("metadata.version", low, high, high)
    if release != FIRST_WITH_ELR:
        return (metadata,)
    return (Feature("eligible.leader.replicas.version", 0, 1, int(elr)), metadata)

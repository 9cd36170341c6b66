"""Valid requests with as much in them as one may have, beside an honest producer and consumer who notice nothing.

How much is done at a time is counted in tests/cluster/broker/apis/test_long_requests.py; here they are answered by a
cluster that goes on, in bounded memory, and its verdict is as if they had not been sent.
"""

from __future__ import annotations

import gzip
import struct
import time
from collections.abc import Iterator
from typing import Any

import pytest
from crc32c import crc32c
from honest_pair import honest_pair
from raw_client import RawClient
from serving import Served, serving
from test_hostile import memory_kib

from cluster.protocol import versions
from cluster.protocol.primitives import length, string, uvarint
from cluster.protocol.versions import request_frame
from cluster.slices import MAX_BYTES, MAX_DECIDED, MAX_FETCHED, MAX_ITEMS, MAX_PRODUCED
from replica.errors import ErrorCode
from replica.log.batches.records import build_batch
from tests.soak import one_in

MEMORY_KIB_MAX = 400 << 10
LONG_NAME = "A" * 32_767
NO_TAGS = b"\0"
TOPIC = string("t", flexible=True)
BATCH = bytes(build_batch([(None, b"x")], timestamp_ms=0))


def number(value: int) -> bytes:
    return struct.pack(">i", value)


def array(count: int, item: bytes = b"") -> bytes:
    """item: the same each time; empty where the names are to differ"""
    items = item * count if item else b"".join(string(f"{place:x}", flexible=True) for place in range(count))
    return length(count, flexible=True) + items


def topics(count: int) -> bytes:
    names = b"".join(string(f"{place:x}", flexible=True) + NO_TAGS for place in range(count))
    return length(count, flexible=True) + names


MOST = MAX_ITEMS - 10
BODIES = {
    "DescribeGroups": lambda: (15, 5, array(MOST) + b"\0\0"),
    "DeleteGroups": lambda: (42, 2, array(MOST) + b"\0"),
    "FindCoordinator": lambda: (10, 4, b"\0" + array(MOST) + b"\0"),
    "Metadata": lambda: (3, 9, topics(MOST) + b"\0\0\0\0"),
    "DescribeTopicPartitions": lambda: (75, 0, topics(MOST) + number(1) + b"\xff\0"),
    "DescribeProducers": lambda: (61, 0, uvarint(2) + TOPIC + array(MOST, number(0)) + b"\0\0"),
    "DescribeConfigs of one": lambda: (32, 4, array(MAX_DECIDED, b"\x02" + TOPIC + b"\0\0") + b"\1\1\0"),
    "OffsetFetch": lambda: (
        9, 9, uvarint(2) + b"\x02g\0" + number(-1) + uvarint(2) + TOPIC + array(MOST, number(0)) + b"\0\0\0\0"
    ),
    "DescribeConfigs of many": lambda: (
        32, 4,
        length(MAX_DECIDED, flexible=True)
        + b"".join(b"\x20" + string(f"{place:x}", flexible=True) + b"\0\0" for place in range(MAX_DECIDED)) + b"\1\1\0",
    ),
    "ListOffsets": lambda: (
        2, 10,
        number(-1) + b"\0" + uvarint(2) + TOPIC
        + length(MOST, flexible=True)
        + b"".join(number(place) + number(-1) + b"\xff" * 8 + NO_TAGS for place in range(MOST))
        + b"\0" + number(1000) + b"\0",
    ),
    "DeleteTopics": lambda: (
        20, 6,
        length(MAX_DECIDED, flexible=True)
        + b"".join(string(f"{place:x}", flexible=True) + bytes(16) + NO_TAGS for place in range(MAX_DECIDED))
        + number(1000) + b"\0",
    ),
    "Produce": lambda: (
        0, 9,
        b"\0\xff\xff" + number(1000) + uvarint(2) + TOPIC
        + length(MAX_PRODUCED - 1, flexible=True)
        + b"".join(
            number(place) + length(len(BATCH), flexible=True) + BATCH + b"\0" for place in range(MAX_PRODUCED - 1)
        )
        + b"\0\0",
    ),
    "Fetch": lambda: (
        1, 12,
        number(-1) + number(1) + number(1) + number(1_000_000) + b"\0" + number(0) + number(-1) + uvarint(2) + TOPIC
        + length(MAX_FETCHED - 1, flexible=True)
        + b"".join(
            number(place) + number(-1) + bytes(8) + number(-1) + b"\xff" * 8 + number(1000) + NO_TAGS
            for place in range(MAX_FETCHED - 1)
        )
        + b"\0\1\1\0",
    ),
    "long names": lambda: (
        15, 5, array(MAX_BYTES // len(string(LONG_NAME, flexible=True)) - 1, string(LONG_NAME, flexible=True)) + b"\0\0"
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    honest = [word for place in range(len(BODIES) + 1) for word in ("--topic", f"honest{place}:1:3")]
    words = (*honest, "--topic", "t:1:3")
    with serving(tmp_path_factory.mktemp("long"), *words) as cluster:
        yield cluster
        cluster.stop()
        assert not cluster.summary["our_bug"], cluster.summary["anomalies"]
        assert cluster.summary["records"]["lost"] == []


def asked(served: Served, key: int, version: int, body: bytes, patience_s: float = 240) -> bytes:
    with RawClient.at(served.bootstrap, 0, "long") as client:
        client._sock.settimeout(patience_s)
        client._sock.sendall(request_frame(key, version, 1, "long", body))
        return client._answer()


@pytest.mark.soak
@pytest.mark.parametrize("name", one_in(7, BODIES))
def test_the_longest_requests_are_answered_beside_an_honest_pair(served: Served, name: str) -> None:
    with honest_pair(served.bootstrap, f"honest{list(BODIES).index(name)}") as seen:
        began = time.monotonic()
        answer = asked(served, *BODIES[name]())
        took_s = time.monotonic() - began
    print(f"{name}: {len(answer):,} bytes in {took_s:.1f} s, {memory_kib(served) >> 10} MiB, {seen}")
    assert seen["failures"] == [] and seen["records"] > 0
    assert memory_kib(served) < MEMORY_KIB_MAX


@pytest.mark.soak
@pytest.mark.parametrize(
    ("key", "version", "body"),
    [
        (15, 5, array(MAX_ITEMS + 1) + b"\0\0"),
        (19, 7, array(MAX_DECIDED + 1, b"\x01" + number(1) + b"\0\1\x01\x01\0") + number(1000) + b"\0\0"),
        (15, 5, array(520, string(LONG_NAME, flexible=True)) + b"\0\0"),
        (10, 4, b"\0" + array(1) + uvarint(10_001) + b"\0\0" * 10_001),
    ],
    ids=["items", "decisions", "bytes", "tagged fields"],
)
def test_more_is_refused(served: Served, key: int, version: int, body: bytes) -> None:
    with pytest.raises((AssertionError, ConnectionError)):
        asked(served, key, version, body)


@pytest.mark.parametrize(
    ("key", "version", "fields"),
    [
        (
            versions.INCREMENTAL_ALTER_CONFIGS,
            0,
            {
                "resources": [
                    {
                        "resource_type": 2,
                        "resource_name": "t",
                        "configs": [{"name": LONG_NAME, "config_operation": 0, "value": None}],
                    }
                ],
                "validate_only": True,
            },
        ),
        (
            versions.ALTER_CONFIGS,
            1,
            {
                "resources": [
                    {"resource_type": 2, "resource_name": "t", "configs": [{"name": LONG_NAME, "value": None}]}
                ],
                "validate_only": True,
            },
        ),
        (
            versions.CREATE_TOPICS,
            4,
            {
                "topics": [{"name": LONG_NAME, "num_partitions": 1, "replication_factor": 1}] * 2,
                "timeout": 1000,
                "validate_only": True,
            },
        ),
        (
            versions.CREATE_PARTITIONS,
            1,
            {
                "topics": [{"name": LONG_NAME, "count": 1, "assignments": None}] * 2,
                "timeout": 1000,
                "validate_only": True,
            },
        ),
        (
            versions.DESCRIBE_CONFIGS,
            1,
            {"resources": [{"resource_type": 2, "resource_name": LONG_NAME, "configuration_keys": None}]},
        ),
        (
            versions.DESCRIBE_CONFIGS,
            4,
            {"resources": [{"resource_type": 2, "resource_name": "ü" * 16_383, "configuration_keys": None}]},
        ),
        (versions.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, {"users": [{"name": LONG_NAME}] * 2}),
    ],
)
def test_a_name_as_long_as_any_may_be_is_answered(
    served: Served, key: int, version: int, fields: dict[str, Any]
) -> None:
    with RawClient.at(served.bootstrap, 0, "long names") as client:
        assert client.ask(key, version, **fields) is not None


@pytest.mark.soak
def test_batches_that_are_more_work_than_bytes_are_refused(served: Served) -> None:
    """15 kB that hold five million headers, and a megabyte of gzip members that hold nothing."""
    members = bytearray(BATCH[:61]) + gzip.compress(b"") * 45_000
    members[8:12], members[22] = (len(members) - 12).to_bytes(4), 1
    members[17:21] = crc32c(bytes(members[21:])).to_bytes(4)
    heads = build_batch([(None, None)], timestamp_ms=0, compression="gzip", headers=[(("", None),) * 5_000_000])
    assert len(heads) < 16_000 and len(members) < 1 << 20
    with honest_pair(served.bootstrap, f"honest{len(BODIES)}") as seen:
        for batch in (heads, members):
            answers = set()
            for place in range(3):
                with RawClient.at(served.bootstrap, place, "evil") as client:
                    answers.update(error for _, error in client.produce("t", {0: batch}))
            assert answers == {ErrorCode.MESSAGE_TOO_LARGE.name, ErrorCode.NOT_LEADER_OR_FOLLOWER.name}
    print(seen)
    assert seen["failures"] == []

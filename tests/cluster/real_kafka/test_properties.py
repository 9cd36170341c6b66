"""Settings as a release of Kafka takes them."""

from __future__ import annotations

import pytest

from cluster.kafka.properties import topic_settings


@pytest.mark.parametrize(
    ("version", "segment_bytes", "key"),
    [
        ((4, 1, 0), "1024", "internal.segment.bytes"),
        ((4, 1, 0), "1048575", "internal.segment.bytes"),
        ((4, 1, 0), "1048576", "segment.bytes"),
        ((3, 9, 1), "1024", "segment.bytes"),
    ],
)
def test_small_segments_go_by_the_key_for_tests(version: tuple[int, ...], segment_bytes: str, key: str) -> None:
    config = {"min.insync.replicas": "2", "segment.bytes": segment_bytes}
    assert topic_settings(config, version) == {"min.insync.replicas": "2", key: segment_bytes}


def test_a_topic_without_a_segment_size_is_left_alone() -> None:
    assert topic_settings({"retention.ms": "1000"}, (4, 1, 0)) == {"retention.ms": "1000"}

"""Settings as a release of Kafka takes them."""

from __future__ import annotations

import pytest

from cluster.kafka.properties import NodeSpec, topic_defaults_of, topic_settings


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


def test_topics_have_the_settings_of_the_brokers_file() -> None:
    """Otherwise what is below the minimum on real Kafka was told by Kafka's default of 1."""
    config = {"min.insync.replicas": "2", "log.retention.ms": "1000", "num.io.threads": "2"}
    specs = [
        NodeSpec(name="c1", node_id=9, role="controller", log_dirs=()),
        NodeSpec(name="b1", node_id=1, role="broker", log_dirs=(), config=config),
    ]
    assert topic_defaults_of(specs) == {"min.insync.replicas": "2", "retention.ms": "1000"}

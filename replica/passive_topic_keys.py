"""Topic keys of Kafka that nothing here acts upon: checked, kept and described, so that ordinary clients can set them.

Differs from Kafka: there is no timestamp but the producer's, and a batch keeps the codec that it came with.
Source: TopicConfig.java, LogConfig.java (4.1, without tiered storage)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from replica.config import Config, TopicConfig, key

CODECS = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")


@dataclass(frozen=True, slots=True, kw_only=True)
class PassiveTopicConfig(Config):
    """A topic's setting that has no effect here."""

    WHAT: ClassVar[str] = "topic"

    compression_gzip_level: int = key("compression.gzip.level", -1, low=-1, high=9)
    compression_lz4_level: int = key("compression.lz4.level", 9, low=1, high=17)
    compression_type: str = key("compression.type", "producer", choices=CODECS)
    compression_zstd_level: int = key("compression.zstd.level", 3, low=-131_072, high=22)
    message_timestamp_type: str = key("message.timestamp.type", "CreateTime", choices=TIMESTAMP_TYPES)
    preallocate: bool = key("preallocate", False)
    segment_jitter_ms: int = key("segment.jitter.ms", 0, low=0)


def active(config: Mapping[str, str], defaults: TopicConfig) -> TopicConfig:
    """What is acted upon: the topic's own settings, as they are stored, else the node's `defaults`."""
    passive, keys = PassiveTopicConfig.keys(), TopicConfig.keys()
    own = {keys[name].name: TopicConfig.check(name, value) for name, value in config.items() if name not in passive}
    return replace(defaults, **own) if own else defaults

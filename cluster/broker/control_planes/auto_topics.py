"""Topics that are created because a client asked about them, or because brokers need one for themselves.

source: AutoTopicCreationManager.scala
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from cluster.broker.control_planes.forwarding import Forwarding
from cluster.protocol import cold
from cluster.protocol.versions import CREATE_TOPICS
from replica.errors import ErrorCode

CREATE_TOPICS_VERSION = 7
_SIZE_BYTES = 4


class WantedTopic(NamedTuple):
    """A topic that a broker wants to exist."""

    name: str
    partitions: int
    replication_factor: int
    config: Mapping[str, str] = MappingProxyType({})


class AutoTopics:
    """Asks the controller, once at a time for each topic. The result shows in the metadata, or the
    client's next request repeats it."""

    def __init__(self, forwarding: Forwarding, node: str, request_timeout_ms: int) -> None:
        self._forwarding = forwarding
        self._node = node
        self._request_timeout_ms = request_timeout_ms
        self._in_flight: dict[str, None] = {}

    def create(self, topics: Sequence[WantedTopic], now_us: int) -> None:
        wanted = [topic for topic in topics if topic.name not in self._in_flight]
        if not wanted:
            return
        self._in_flight.update(dict.fromkeys(topic.name for topic in wanted))

        def answered(response: bytes | ErrorCode) -> None:
            for topic in wanted:
                self._in_flight.pop(topic.name, None)

        entity = cold.request(
            CREATE_TOPICS,
            CREATE_TOPICS_VERSION,
            topics=[
                {
                    "name": topic.name,
                    "num_partitions": topic.partitions,
                    "replication_factor": topic.replication_factor,
                    "configs": [{"name": name, "value": value} for name, value in topic.config.items()],
                }
                for topic in wanted
            ],
            timeout=self._request_timeout_ms,
        )
        frame = cold.encode_request(CREATE_TOPICS, CREATE_TOPICS_VERSION, 0, self._node, entity)
        self._forwarding.send(frame[_SIZE_BYTES:], answered, now_us)

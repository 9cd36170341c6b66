"""The settings of topics in a ZooKeeper-era broker, which reads them from the registry and watches them.

Differs from Kafka: each topic's node is watched. In Kafka, every change adds a notification below /config/changes.
Source: ConfigRepository of the ZooKeeper era, DynamicConfigManager
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from uuid import UUID

from cluster.broker.control_planes.registry_client import RegistryClient
from cluster.broker.metadata.follower import MetadataCache
from controller.image import TopicImage
from controller.zookeeper import znodes
from controller.zookeeper.registry import GetData, RegistryError, Result
from replica.config import TopicConfig


class TopicConfigs:
    """The settings of topics with replicas on this broker; `on_change(topic, now_us)` is called after a change."""

    def __init__(self, client: RegistryClient, cache: MetadataCache, on_change: Callable[[str, int], None]) -> None:
        self._known: dict[str, dict[str, str]] = {}
        self._client = client
        self._cache = cache
        self._on_change = on_change

    def ensure(self, topics: Sequence[str], then: Callable[[int], None], now_us: int) -> None:
        """Read the settings of topics where they are not known yet, one topic at a time, then call `then(now_us)`."""
        missing = next((topic for topic in topics if topic not in self._known), None)
        if missing is None:
            then(now_us)
            return

        def read(results: Sequence[Result], now_us: int) -> None:
            self._take(missing, results)
            self.ensure(topics, then, now_us)

        self._client.execute(GetData(path=znodes.config_path(missing), watch=True), read)

    def image_of(self, topic: str, topic_id: UUID) -> TopicImage:
        """Return the topic's image in the metadata cache, after updating its settings.

        A new topic is added to the cache without partitions, which an UpdateMetadata request adds later.
        """
        image = self._cache.image
        config = self._known.get(topic, {})
        known = image.topics.get(topic)
        if known is None or known.topic_id != topic_id:
            known = TopicImage(topic_id=topic_id, config={}, log_config=TopicConfig(), partitions={})
            image.add_topic(topic, known)
        log_config = TopicConfig().with_own(config)
        # The broker's flush policy overrides the topic's default, as in its server.properties.
        flush_messages = min(log_config.flush_messages, image.topic_defaults.flush_messages)
        known.config, known.log_config = dict(config), replace(log_config, flush_messages=flush_messages)
        return known

    def watch_fired(self, path: str) -> None:
        """Read a topic's settings again, and watch them again. Ignore watches of other paths."""
        topic = path.rpartition("/")[2]
        if path == znodes.config_path(topic):
            self._client.execute(GetData(path=path, watch=True), partial(self._changed, topic))

    def _take(self, topic: str, results: Sequence[Result]) -> None:
        """Store a topic's settings, none of its own if its node is missing.

        If the session has expired, known settings are kept until the next read.
        """
        (result,) = results
        if result.error is not RegistryError.SESSION_EXPIRED or topic not in self._known:
            self._known[topic] = znodes.config_of(result.data) if result.error is None else {}

    def _changed(self, topic: str, results: Sequence[Result], now_us: int) -> None:
        before = self._known.get(topic)
        self._take(topic, results)
        if before == self._known[topic]:
            return
        image = self._cache.image.topics.get(topic)
        if image is not None:
            self.image_of(topic, image.topic_id)
            self._on_change(topic, now_us)

"""A ZooKeeper-era broker's copy of topics' settings: read from the registry when a topic is first hosted, and again
whenever it changes. source: ConfigRepository of the ZooKeeper era, DynamicConfigManager

Differs from Kafka: each topic's file is watched; Kafka leaves a note in /config/changes for every change.
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
    """on_change: a topic of the metadata whose settings have changed since they were first read"""

    def __init__(self, client: RegistryClient, cache: MetadataCache, on_change: Callable[[str, int], None]) -> None:
        self._known: dict[str, dict[str, str]] = {}
        self._client = client
        self._cache = cache
        self._on_change = on_change

    def ensure(self, topics: Sequence[str], then: Callable[[int], None], now_us: int) -> None:
        """Call `then` once the settings of all `topics` are known; until then they are asked for one by one."""
        missing = next((topic for topic in topics if topic not in self._known), None)
        if missing is None:
            then(now_us)
            return

        def read(results: Sequence[Result], now_us: int) -> None:
            self._take(missing, results)
            self.ensure(topics, then, now_us)

        self._client.execute(GetData(path=znodes.config_path(missing), watch=True), read)

    def image_of(self, topic: str, topic_id: UUID) -> TopicImage:
        """The cache's entry of a topic, with its settings; a new one has no partitions until UpdateMetadata comes."""
        image = self._cache.image
        config = self._known.get(topic, {})
        known = image.topics.get(topic)
        if known is None or known.topic_id != topic_id:
            known = TopicImage(topic_id=topic_id, config={}, log_config=TopicConfig(), partitions={})
            image.add_topic(topic, known)
        log_config = TopicConfig().with_own(config)
        # A broker's own flush policy wins over the topic's default, as its server.properties would.
        flush_messages = min(log_config.flush_messages, image.topic_defaults.flush_messages)
        known.config, known.log_config = dict(config), replace(log_config, flush_messages=flush_messages)
        return known

    def watch_fired(self, path: str) -> None:
        """If it was a topic's file, it is read again, and watched on."""
        topic = path.rpartition("/")[2]
        if path == znodes.config_path(topic):
            self._client.execute(GetData(path=path, watch=True), partial(self._changed, topic))

    def _take(self, topic: str, results: Sequence[Result]) -> None:
        """A topic that is gone has Kafka's own defaults; after an expired session the next look shows it."""
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

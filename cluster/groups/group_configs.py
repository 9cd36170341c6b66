"""What a group's own settings say, else its broker's keys. source: GroupConfigManager.java"""

from __future__ import annotations

from typing import NamedTuple

from cluster.broker.metadata.follower import MetadataCache
from cluster.config import HEARTBEAT_INTERVAL, SESSION_TIMEOUT
from cluster.groups.desk import GroupSettings


class Setting(NamedTuple):
    """key: where the value comes from: of the broker, or the group's own"""

    key: str
    value: int


class GroupConfigs:
    """Of one broker, as of the last metadata record it has applied."""

    def __init__(self, cache: MetadataCache, settings: GroupSettings) -> None:
        self._cache = cache
        self._settings = settings

    def session_timeout_ms(self, group_id: str) -> Setting:
        """source: GroupMetadataManager.consumerGroupSessionTimeoutMs"""
        return self._of(group_id, SESSION_TIMEOUT, self._settings.consumer_session_timeout_ms)

    def heartbeat_interval_ms(self, group_id: str) -> Setting:
        """source: GroupMetadataManager.consumerGroupHeartbeatIntervalMs"""
        return self._of(group_id, HEARTBEAT_INTERVAL, self._settings.consumer_heartbeat_interval_ms)

    def _of(self, group_id: str, key: str, otherwise: int) -> Setting:
        own = self._cache.image.group_config.get(group_id, {}).get(key)
        return Setting(f"group.{key}", otherwise) if own is None else Setting(key, int(own))

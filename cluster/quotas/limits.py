"""Which quota is whose: the limits of one kind, by user and client-id, and the most specific one that fits.

A client shares its quota with all clients to which the same limit applies as a whole: with those of its user where
only users have quotas, with those of its client-id where only client-ids have. source: DefaultQuotaCallback
"""

from __future__ import annotations

from enum import Flag
from typing import NamedTuple

from controller.client_quotas import CLIENT_ID, USER
from controller.metadata import QuotaEntity

ABSENT = ""
"""An entity without a user, or without a client-id; its default is None."""
_Names = tuple[str | None, str | None]


class Tags(NamedTuple):
    """Who shares one measurement: a user, a client-id, or a client-id of a user; ABSENT for the other."""

    user: str
    client_id: str


class _Levels(Flag):
    NONE = 0
    CLIENT_ID = 1
    USER = 2
    USER_CLIENT_ID = 4


class QuotaLimits:
    """source: ClientQuotaManager.updateQuota, quotaMetricTags, quotaLimit"""

    __slots__ = ("_bounds", "_levels")

    def __init__(self) -> None:
        self._bounds: dict[_Names, float] = {}
        self._levels = _Levels.NONE

    @property
    def is_enabled(self) -> bool:
        """There has been a quota of this kind; as in Kafka it stays so until the broker starts again."""
        return self._levels is not _Levels.NONE

    def set(self, entity: QuotaEntity, bound: float | None) -> None:
        """bound: None takes the limit away"""
        names = dict(entity)
        user, client_id = names.get(USER, ABSENT), names.get(CLIENT_ID, ABSENT)
        if user == ABSENT:
            self._levels |= _Levels.CLIENT_ID
        else:
            self._levels |= _Levels.USER if client_id == ABSENT else _Levels.USER_CLIENT_ID
        if bound is None:
            self._bounds.pop((user, client_id), None)
        else:
            self._bounds[user, client_id] = bound

    def tags(self, user: str, client_id: str) -> Tags:
        match self._levels:
            case _Levels.NONE | _Levels.CLIENT_ID:
                return Tags(ABSENT, client_id)
            case _Levels.USER:
                return Tags(user, ABSENT)
            case _Levels.USER_CLIENT_ID:
                return Tags(user, client_id)
        # In the order of precedence, the most specific first.
        for names, tags in (
            ((user, client_id), Tags(user, client_id)),
            ((user, None), Tags(user, client_id)),
            ((user, ABSENT), Tags(user, ABSENT)),
            ((None, client_id), Tags(user, client_id)),
            ((None, None), Tags(user, client_id)),
            ((None, ABSENT), Tags(user, ABSENT)),
        ):
            if names in self._bounds:
                return tags
        return Tags(ABSENT, client_id)

    def bound(self, tags: Tags) -> float | None:
        """None: no limit"""
        user, client_id = tags
        found: tuple[_Names, ...] = ()
        if user and client_id:
            found = ((user, client_id), (user, None), (None, client_id), (None, None))
        elif user:
            found = ((user, ABSENT), (None, ABSENT))
        elif client_id:
            found = ((ABSENT, client_id), (ABSENT, None))
        return next((self._bounds[names] for names in found if names in self._bounds), None)

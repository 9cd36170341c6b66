"""The feed that makes all pages of one `highwater play` show the same futures and the same moment.

The player's page reports what it shows in POST requests. The other pages get these reports from the feed
(serve/page_server.py). A page that is opened later first receives all futures.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

VIEWERS_MAX = 200
MODES = ("one", "compare", "partitions")
MOMENT = ("future", "place", "now_us", "partition", "mode", "pair", "by")
BY_MAX = 20


class NoMoment(ValueError):
    """Raised if a request does not describe a moment that the pages can show."""


@dataclass(slots=True)
class ViewerProgress:
    """The position of one page in the feed: the number of received entries, and of the last received moment."""

    news: int = 0
    moment: int = 0


class Viewers:
    """The feed: created, compared and deleted futures, and the moment that the player's page shows."""

    def __init__(self) -> None:
        self._news: list[dict[str, Any] | None] = []
        """All entries in order. The creation of a future that was deleted later is replaced by None."""
        self._moment: dict[str, Any] = {}
        self._number = 0

    def made(self, answer: dict[str, Any]) -> None:
        """Announce a new future. `answer` is the answer to the page that created the future."""
        self._news.append({"made": answer})

    def compared(self, answer: dict[str, Any]) -> None:
        """Announce the labels of two futures side by side, once for each pair."""
        if {"compared": answer} not in self._news:
            self._news.append({"compared": answer})

    def gone(self, numbers: list[int]) -> None:
        for index, entry in enumerate(self._news):
            if entry is not None and "made" in entry and entry["made"]["future"]["number"] in numbers:
                self._news[index] = None
        self._news.append({"gone": numbers})

    def show(self, request: dict[str, Any]) -> dict[str, Any]:
        """Set the moment that the other pages show, and return {"shown": its number}. Raises NoMoment."""
        match request:
            case {
                "future": int(),
                "place": int(),
                "now_us": int(),
                "partition": int(),
                "mode": str(mode),
                "pair": list(pair),
                "by": str(by),
            } if mode in MODES and _is_pair(pair) and len(by) <= BY_MAX:
                self._moment = {key: request[key] for key in MOMENT}
                self._number += 1
                return {"shown": self._number}
        raise NoMoment("the request does not name a valid moment")

    def begin(self) -> ViewerProgress:
        return ViewerProgress()

    def part(self, progress: ViewerProgress) -> dict[str, Any]:
        """Return the next part of the feed: at most one entry, and the moment if there are no more entries."""
        found: dict[str, Any] = {}
        while progress.news < len(self._news) and not found:
            found = self._news[progress.news] or {}
            progress.news += 1
        if progress.news == len(self._news) and progress.moment < self._number:
            progress.moment = self._number
            found = {**found, "moment": self._moment}
        return found

    def has_more(self, progress: ViewerProgress) -> bool:
        return progress.news < len(self._news) or progress.moment < self._number


def _is_pair(pair: list[Any]) -> bool:
    """Return True for a list of two numbers (futures that are shown side by side) and for an empty list."""
    return len(pair) in (0, 2) and all(isinstance(number, int) for number in pair)

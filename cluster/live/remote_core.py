"""What stands here for the core and the shell of a node in another process: it passes on what an operator asks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import trio

from cluster.live.control import SETTLE_S
from cluster.node import Action
from cluster.wall_clock import WallClock
from replica.log.disk import Disk

if TYPE_CHECKING:
    from cluster.live.remote_host import RemoteHost


class RemoteCore:
    """Stands for the core of a node in another process: the methods of an operator, and none of its decisions."""

    def __init__(self, incarnation: int, disks: Mapping[str, Disk], clock: WallClock) -> None:
        self.incarnation = incarnation
        self.disks = disks
        self.clock = clock
        self.host: RemoteHost

    def begin_shutdown(self, now_us: int) -> list[Action]:
        return self.host.ask("begin_shutdown")

    async def flush(self, wanted: object) -> None:
        """What the process had written is on its disk when this returns."""
        await self._answer_to("flush", wanted)

    def create_topic(self, *arguments: Any) -> list[Action]:
        *plain, answer, _ = arguments
        return self.host.ask("create_topic", *plain, answer=answer)

    def elect_leader(self, *arguments: Any) -> list[Action]:
        *plain, answer, _ = arguments
        return self.host.ask("elect_leader", *plain, answer=answer)

    def operate(self, event: Callable[[int], object], answer: Callable[..., None], now_us: int) -> list[Action]:
        return self.host.ask("operate", event(now_us), answer=answer)

    async def topic_config(self, topic: str) -> Mapping[str, str]:
        """As the active controller knows it."""
        values: Mapping[str, str] | None = await self._answer_to("topic_config", topic)
        return values or {}

    async def _answer_to(self, method: str, *arguments: object) -> Any:
        """None from a process that has not answered in time: one that is stopped or dies."""
        answered = trio.Event()
        values: list[Any] = []

        def answer(value: Any) -> None:
            values.append(value)
            answered.set()

        self.host.ask(method, *arguments, answer=answer)
        with trio.move_on_after(SETTLE_S):
            await answered.wait()
        return values[0] if values else None

    def crash(self) -> None:
        """Its files are closed with its process."""


class RemoteShell:
    """An application's call goes to the stand-in, which passes it on."""

    def __init__(self, host: RemoteHost) -> None:
        self._host = host

    def call(self, method: Callable[[int], list[Action]]) -> None:
        method(self._host.now_us())

"""Represents the core of a node that runs in another process, and forwards an operator's requests to that process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from cluster.clocks import WallClock
from cluster.node import Action
from cluster.operated import BrokerInput
from controller.inputs import ChangeVoters, ControllerInput, OnReply
from replica.ids import TopicPartition
from replica.log.files.disk import Disk

if TYPE_CHECKING:
    from cluster.live.remote_host import RemoteHost


class RemoteCore:
    """Forwards an operator's commands to the node's process. Implements `NodeElsewhere`."""

    answers_operator = True
    """Always True, because this process does not know the state of the node."""

    def __init__(self, host: RemoteHost, incarnation: int, disks: Mapping[str, Disk], clock: WallClock) -> None:
        self.incarnation = incarnation
        self.disks = disks
        self.clock = clock
        self._host = host

    def launch(self) -> None:
        self._host.launch(self)

    def begin_shutdown(self, now_us: int) -> list[Action]:
        return self._host.ask("begin_shutdown")

    def crash(self) -> None:
        pass  # The files are closed when the process ends.

    def flush(self, wanted: TopicPartition | None, answer: Callable[[None], None], now_us: int) -> list[Action]:
        """Flush the disk. When the answer comes, all earlier writes of the process are durable."""
        return self._host.ask("flush", wanted, answer=answer)

    def operate(
        self, make_input: Callable[[int], ControllerInput | ChangeVoters | BrokerInput], answer: OnReply, now_us: int
    ) -> list[Action]:
        return self._host.ask("operate", make_input(now_us), answer=answer)

    def topic_config(self, topic: str, answer: Callable[[Mapping[str, str]], None], now_us: int) -> list[Action]:
        return self._host.ask("topic_config", topic, answer=answer)

"""The stand-in for the core of a node in another process: it passes on the operator's requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from cluster.clocks import WallClock
from cluster.node import Action
from cluster.operated import BrokerInput
from controller.inputs import ControllerInput, OnReply
from replica.ids import BrokerId, TopicPartition
from replica.log.files.disk import Disk

if TYPE_CHECKING:
    from cluster.live.remote_host import RemoteHost


class RemoteCore:
    """The methods of an operator (`NodeElsewhere`), and no decision of the node."""

    answers_operator = True
    """As far as this process knows."""

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
        pass  # Its files are closed with its process.

    def flush(self, wanted: TopicPartition | None, answer: Callable[[None], None], now_us: int) -> list[Action]:
        """The process's earlier writes are on its disk once this is answered."""
        return self._host.ask("flush", wanted, answer=answer)

    def create_topic(
        self,
        name: str,
        assignment: tuple[tuple[BrokerId, ...], ...] | None,
        partitions: int | None,
        replication_factor: int | None,
        config: dict[str, str],
        answer: OnReply,
        now_us: int,
    ) -> list[Action]:
        return self._host.ask("create_topic", name, assignment, partitions, replication_factor, config, answer=answer)

    def elect_leader(
        self, topic_partition: TopicPartition, desired: BrokerId | None, unclean: bool, answer: OnReply, now_us: int
    ) -> list[Action]:
        return self._host.ask("elect_leader", topic_partition, desired, unclean, answer=answer)

    def operate(
        self, make_input: Callable[[int], ControllerInput | BrokerInput], answer: OnReply, now_us: int
    ) -> list[Action]:
        return self._host.ask("operate", make_input(now_us), answer=answer)

    def topic_config(self, topic: str, answer: Callable[[Mapping[str, str]], None], now_us: int) -> list[Action]:
        return self._host.ask("topic_config", topic, answer=answer)

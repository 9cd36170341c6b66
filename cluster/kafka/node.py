"""The stand-in for a node that is a JVM: an operator's requests as signals, as files and as requests of Kafka."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from cluster.kafka.admin import NoAnswer
from cluster.kafka.properties import topic_settings
from cluster.node import Action
from cluster.operated import BrokerInput
from controller.inputs import ControllerInput, CreateTopicReply, ElectReply, OnReply, TopicReply
from replica.errors import ErrorCode
from replica.ids import BrokerId, TopicPartition
from replica.log.files.disk import LOG_SUFFIX, Disk, partition_of

if TYPE_CHECKING:
    from cluster.kafka.host import KafkaHost

A = TypeVar("A")
METADATA_LOG = "__cluster_metadata"


class KafkaNode:
    """The methods of an operator (`NodeElsewhere`)."""

    def __init__(self, host: KafkaHost, disks: Mapping[str, Disk]) -> None:
        self.disks = disks
        self._host = host
        self._admin = host.fabric.admin

    @property
    def answers_operator(self) -> bool:
        return self._host.is_up

    def launch(self) -> None:
        self._host.launch(self)

    def begin_shutdown(self, now_us: int) -> list[Action]:
        self._host.ask_to_stop()
        return []

    def crash(self) -> None:
        pass  # Its files are closed with its process.

    def flush(self, wanted: TopicPartition | None, answer: Callable[[None], None], now_us: int) -> list[Action]:
        """No request of Kafka's flushes: what is in the files now is what a loss of power has to leave."""
        for disk in self.disks.values():
            for file in segments(disk):
                if wanted in (None, partition_of(file.parent)):
                    keep(disk, file)
        answer(None)
        return []

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
        def created(reply: CreateTopicReply) -> None:
            self._host.fabric.topic_created(name, len(assignment) if assignment is not None else partitions or 1, reply)
            answer(reply)

        async def create() -> CreateTopicReply:
            await self._host.fabric.broker_has_started()
            settings = topic_settings(config, self._host.fabric.home.jars.number)
            return await self._admin.create_topic(name, assignment, partitions, replication_factor, settings)

        return self._ask(create, created, lambda why: CreateTopicReply(error=ErrorCode.REQUEST_TIMED_OUT, message=why))

    def elect_leader(
        self, topic_partition: TopicPartition, desired: BrokerId | None, unclean: bool, answer: OnReply, now_us: int
    ) -> list[Action]:
        elect = partial(self._admin.elect_leader, topic_partition, desired, unclean)
        return self._ask(elect, answer, lambda why: ElectReply(error=ErrorCode.REQUEST_TIMED_OUT, message=why))

    def operate(
        self, make_input: Callable[[int], ControllerInput | BrokerInput], answer: OnReply, now_us: int
    ) -> list[Action]:
        operate = partial(self._admin.operate, make_input(now_us))
        return self._ask(operate, answer, lambda why: TopicReply(error=ErrorCode.REQUEST_TIMED_OUT, message=why))

    def topic_config(self, topic: str, answer: Callable[[Mapping[str, str]], None], now_us: int) -> list[Action]:
        return self._ask(partial(self._admin.topic_config, topic), answer, lambda why: {})

    def _ask(
        self, question: Callable[[], Awaitable[A]], answer: Callable[[A], None], no_answer: Callable[[str], A]
    ) -> list[Action]:
        async def ask() -> None:
            try:
                reply = await question()
            except NoAnswer as error:
                reply = no_answer(str(error))
            self._host.fabric.time.enter()
            answer(reply)

        self._host.fabric.nursery.start_soon(ask)
        return []


def segments(disk: Disk) -> list[Path]:
    return sorted(disk.root.glob(f"*/*{LOG_SUFFIX}"))


def keep(disk: Disk, file: Path) -> None:
    """It is on the disk for good, as far as it goes now."""
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        disk.kept(str(file), os.fstat(descriptor).st_size)
    finally:
        os.close(descriptor)


def settle_books(disk: Disk) -> None:
    """Of a process that is gone: what it has written, and what it has flushed by itself.

    A segment is flushed when the next one begins, and the metadata log with each append that it answers for.
    source: UnifiedLog.roll, KafkaRaftClient.flushLog
    """
    disk.look()
    files = segments(disk)
    for file, following in zip(files, [*files[1:], None], strict=True):
        rolled = following is not None and following.parent == file.parent
        if rolled or file.parent.name.startswith(METADATA_LOG):
            disk.kept(str(file), file.stat().st_size)

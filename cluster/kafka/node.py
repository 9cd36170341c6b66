"""Controls a JVM node: carries out an operator's commands by signals, files and requests."""

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
from controller.inputs import ChangeVoters, ControllerInput, CreateTopic, CreateTopicReply, OnReply, PlainReply
from replica.errors import ErrorCode
from replica.ids import TopicPartition
from replica.log.files.disk import LOG_SUFFIX, Disk, partition_of

if TYPE_CHECKING:
    from cluster.kafka.host import KafkaHost

A = TypeVar("A")
METADATA_LOG = "__cluster_metadata"


class KafkaNode:
    """The commands that an operator can give to a JVM node. Implements `NodeElsewhere`."""

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
        pass  # The end of the process closes its files.

    def flush(self, wanted: TopicPartition | None, answer: Callable[[None], None], now_us: int) -> list[Action]:
        """Flush the segment files of one partition, or all if None, so that their contents survive a power loss.

        Kafka has no request for this, so this process flushes the files.
        """
        for disk in self.disks.values():
            for file in segments(disk):
                if wanted in (None, partition_of(file.parent)):
                    keep(disk, file)
        answer(None)
        return []

    def operate(
        self, make_input: Callable[[int], ControllerInput | ChangeVoters | BrokerInput], answer: OnReply, now_us: int
    ) -> list[Action]:
        wanted = make_input(now_us)
        if isinstance(wanted, CreateTopic):
            return self._create_topic(wanted, answer)
        operate = partial(self._admin.operate, wanted)
        return self._ask(operate, answer, lambda why: PlainReply(error=ErrorCode.REQUEST_TIMED_OUT, message=why))

    def _create_topic(self, wanted: CreateTopic, answer: OnReply) -> list[Action]:
        fabric = self._host.fabric

        def created(reply: CreateTopicReply) -> None:
            count = len(wanted.assignment) if wanted.assignment is not None else wanted.partitions or 1
            fabric.topic_created(wanted.name, count, reply)
            answer(reply)

        async def create() -> CreateTopicReply:
            await fabric.broker_has_started()
            return await self._admin.create_topic(wanted, topic_settings(wanted.config, fabric.home.jars.number))

        return self._ask(create, created, lambda why: CreateTopicReply(error=ErrorCode.REQUEST_TIMED_OUT, message=why))

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
    """Flush a file, and record that its current contents survive a power loss."""
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        disk.kept(str(file), os.fstat(descriptor).st_size)
    finally:
        os.close(descriptor)


def settle_books(disk: Disk) -> None:
    """Record which contents of the files survive a power loss. Call this after the process has ended.

    Kafka flushes a segment when the next one begins, and its metadata log before acknowledging an append.

    Source: UnifiedLog.roll, KafkaRaftClient.flushLog
    """
    disk.look()
    files = segments(disk)
    for file, following in zip(files, [*files[1:], None], strict=True):
        rolled = following is not None and following.parent == file.parent
        if rolled or file.parent.name.startswith(METADATA_LOG):
            disk.kept(str(file), file.stat().st_size)

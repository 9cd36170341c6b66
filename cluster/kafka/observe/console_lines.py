"""Parses the console lines of Kafka's processes that concern replicas.

The patterns match the wording of 2.8 and of 3.0 to 4.1. Other lines are skipped, since the log files show the rest.

Source: Partition.scala (makeLeader, makeFollower, maybeShrinkIsr), LogManager.scala, AbstractFetcherThread.scala,
ReplicaManager.scala, ReplicationControlManager.java; in the ZooKeeper era KafkaController.scala, ZooKeeperServer.java
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from replica.ids import BrokerEpoch, BrokerId, LeaderEpoch, Offset, PartitionEpoch, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class SaidLeader:
    """A broker's line that it became leader; `offset` is where its epoch starts.

    `partition_epoch` is None in 2.8, whose line omits it.
    """

    topic_partition: TopicPartition
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch | None
    offset: Offset
    high_watermark: Offset
    isr: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SaidFollower:
    """A broker's line that it became follower of `leader`, -1 for none.

    Leader and partition epoch are None in 2.8, whose line omits them.
    """

    topic_partition: TopicPartition
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch | None
    offset: Offset
    high_watermark: Offset
    leader: BrokerId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SaidLoaded:
    """A broker's line that it has opened an existing log, after recovering it if needed."""

    topic_partition: TopicPartition
    log_start_offset: Offset
    log_end_offset: Offset


@dataclass(frozen=True, slots=True)
class SaidCleanness:
    """The line that says whether the log directory has the marker file of a clean shutdown."""

    was_clean: bool


@dataclass(frozen=True, slots=True)
class SaidTruncation:
    """The line about a truncated log. `words` are its text about the offset and the reason, empty in 2.8."""

    topic_partition: TopicPartition
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SaidShrink:
    """A leader's line that it proposes a smaller ISR. `words` are its text about the replicas to be removed."""

    topic_partition: TopicPartition
    previous_isr: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]
    words: str


@dataclass(frozen=True, slots=True)
class SaidRefusal:
    """A leader's line that it refused an append; the next line names the exception."""

    topic_partition: TopicPartition


@dataclass(frozen=True, slots=True)
class SaidException:
    """A line that names an exception. `name` omits the package and the suffix `Exception`."""

    name: str
    message: str


@dataclass(frozen=True, slots=True)
class SaidFencing:
    """A controller's line about a timed-out session of a broker.

    `broker_epoch` is None up to 3.9, whose line omits it.
    """

    broker_id: BrokerId
    broker_epoch: BrokerEpoch | None


@dataclass(frozen=True, slots=True)
class SaidExpiry:
    """ZooKeeper's line about an expired session."""

    session: int


@dataclass(frozen=True, slots=True)
class SaidLive:
    """A ZooKeeper-era controller's line about live brokers: those that started, those that failed, or all of them."""

    kind: Literal["startup", "failure", "takeover"]
    brokers: tuple[BrokerId, ...]


Said = (
    SaidLeader
    | SaidFollower
    | SaidLoaded
    | SaidCleanness
    | SaidTruncation
    | SaidShrink
    | SaidRefusal
    | SaidException
    | SaidFencing
    | SaidExpiry
    | SaidLive
)


@dataclass(frozen=True, slots=True)
class ConsoleLine:
    """A recognized line of a console.

    `wall_ms` is the time in the line; a line without a time has the time of the previous line.
    """

    wall_ms: int
    said: Said


class ConsoleReader:
    """Parses console output, each line once it is complete."""

    def __init__(self) -> None:
        self._rest = b""
        self._wall_ms = 0

    def feed(self, data: bytes) -> Iterator[ConsoleLine]:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            said = self._read(line.decode(errors="replace").rstrip("\r"))
            if said is not None:
                yield ConsoleLine(self._wall_ms, said)

    def _read(self, line: str) -> Said | None:
        stamp = _STAMP.match(line)
        if stamp is None:
            match = _EXCEPTION.match(line)
            return None if match is None else SaidException(match[1], match[2] or "")
        self._wall_ms = int(stamp[1]) if stamp[1] else _milliseconds(stamp[2])
        for pattern, made in _PATTERNS:
            match = pattern.search(line, stamp.end())
            if match is not None:
                return made(match)
        return None


_STAMP = re.compile(r"(?:(\d{13}) |\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\] )")
_EXCEPTION = re.compile(r"(?:[a-z]\w*\.)+(\w+?)(?:Exception)?(?:: (.*))?$")
_REPLICA = r"(?P<topic>[\w.-]+)-(?P<partition>\d+)"

_BEGINNING = r"starts at leader epoch (?P<epoch>\d+) from offset (?P<offset>\d+)"


def _milliseconds(text: str) -> int:
    moment = datetime.strptime(text, "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def _name(match: re.Match[str]) -> TopicPartition:
    return TopicPartition(match["topic"], int(match["partition"]))


def _ids(text: str) -> tuple[BrokerId, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", text))


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)


def _leader(match: re.Match[str]) -> Said:
    return SaidLeader(
        topic_partition=_name(match),
        leader_epoch=int(match["epoch"]),
        partition_epoch=_number(match["version"]),
        offset=int(match["offset"]),
        high_watermark=int(match["hw"]),
        isr=_ids(match["isr"]),
    )


def _follower(match: re.Match[str]) -> Said:
    return SaidFollower(
        topic_partition=_name(match),
        leader_epoch=int(match["epoch"]),
        partition_epoch=_number(match["version"]),
        offset=int(match["offset"]),
        high_watermark=int(match["hw"]),
        leader=_number(match["leader"]),
    )


def _loaded(match: re.Match[str]) -> Said:
    return SaidLoaded(
        topic_partition=_name(match), log_start_offset=int(match["start"]), log_end_offset=int(match["end"])
    )


def _shrink(match: re.Match[str]) -> Said:
    return SaidShrink(
        topic_partition=_name(match),
        previous_isr=_ids(match["before"]),
        isr=_ids(match["after"]),
        words=match["why"],
    )


def _fencing(match: re.Match[str]) -> Said:
    epoch = match["epoch"]
    return SaidFencing(int(match["broker"]), None if epoch is None else int(epoch))


_PATTERNS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Said]], ...] = (
    (
        re.compile(
            rf"Leader {_REPLICA} (?:with topic id \S+ )?{_BEGINNING} "
            r"with (?:partition epoch (?P<version>\d+), )?high watermark (?P<hw>\d+),? ISR \[(?P<isr>[\d, ]*)\]"
        ),
        _leader,
    ),
    (
        re.compile(
            rf"Follower {_REPLICA} {_BEGINNING} with (?:partition epoch (?P<version>\d+) and )?"
            r"high watermark (?P<hw>\d+)\. (?:Current leader is (?P<leader>-?\d+)|Previous leader epoch was)"
        ),
        _follower,
    ),
    (
        re.compile(
            r"Completed load of Log\(.*?topic=(?P<topic>[\w.-]+), partition=(?P<partition>\d+),.*"
            r"logStartOffset=(?P<start>\d+), logEndOffset=(?P<end>\d+)\)"
        ),
        _loaded,
    ),
    (
        re.compile(r"Skipping recovery (?:of \d+ logs |for all logs in .* since clean)"),
        lambda found: SaidCleanness(True),
    ),
    (
        re.compile(r"(?:Recovering \d+ logs from|Attempting recovery for all logs in) .* since no clean shutdown file"),
        lambda found: SaidCleanness(False),
    ),
    (
        re.compile(rf"\[Log partition={_REPLICA}, dir=.*\] Truncating to offset \d+"),
        lambda found: SaidTruncation(_name(found), ""),
    ),
    (
        re.compile(rf"(?P<words>Truncating partition {_REPLICA} with .*?)(?: \(\w+\))?$"),
        lambda found: SaidTruncation(_name(found), found["words"]),
    ),
    (
        re.compile(
            rf"\[Partition {_REPLICA} broker=\d+\] Shrinking ISR from (?P<before>[\d,]*) to (?P<after>[\d,]*)\. "
            r"(?P<why>.*?)\.?(?: \(\w+\))?$"
        ),
        _shrink,
    ),
    (
        re.compile(rf"Error processing append operation on partition (?:[\w-]{{22}}:)?{_REPLICA}"),
        lambda found: SaidRefusal(_name(found)),
    ),
    (
        re.compile(r"Fencing broker (?P<broker>\d+)(?: at epoch (?P<epoch>\d+))? because its session has timed out"),
        _fencing,
    ),
    (
        re.compile(r"Expiring session 0x(?P<session>[0-9a-f]+), timeout of \d+ms exceeded"),
        lambda found: SaidExpiry(int(found["session"], 16)),
    ),
    (
        re.compile(r"\[Controller id=\d+\] New broker startup callback for (?P<ids>[\d,]+)"),
        lambda found: SaidLive("startup", _ids(found["ids"])),
    ),
    (
        re.compile(r"\[Controller id=\d+\] Broker failure callback for (?P<ids>[\d,]+)"),
        lambda found: SaidLive("failure", _ids(found["ids"])),
    ),
    (
        re.compile(r"\[Controller id=\d+\] Currently active brokers in the cluster: \w+\((?P<ids>[\d, ]*)\)"),
        lambda found: SaidLive("takeover", _ids(found["ids"])),
    ),
)

"""Disk: what is flushed, torn, damaged, slow, full or broken."""

from __future__ import annotations

from typing import Any

from replica.ids import TopicPartition
from replica.log.files.disk import ServiceTime
from scenarios.language.selectors import Selector
from scenarios.language.values.links import ref, service_time_text
from scenarios.language.values.reading import Fields
from scenarios.language.values.scope import Scope
from scenarios.language.verbs.command_words import RATE_WORD, ShorthandWords
from scenarios.language.verbs.declaration import Kind, Lasts, Verb, key, verb
from scenarios.language.verbs.kinds import ALL_BROKERS, BANDWIDTH, BROKERS, BYTES, PARTITION, integer, time

LOG_DIR: Kind[str] = Kind(
    read=lambda given: given.reader.text(given.node, given.path, given.what),
    write=str,
    schema=ref("slug"),
    blank="",
    example="d2",
    asked="a log directory",
)


def _judge_log_dir(brokers: Selector, log_dir: str | None, scope: Scope, given: Fields) -> None:
    """One of the brokers' `log.dirs`."""
    found = given.get("log_dir")
    if found is None or log_dir is None:
        return
    named = brokers.plain_names
    for broker in scope.brokers if named is None else named:
        known = scope.log_dirs.get(broker, ("",))
        if log_dir not in known and (named is not None or not any(log_dir in dirs for dirs in scope.log_dirs.values())):
            label = f"its log.dirs: {', '.join(known)}" if known != ("",) else "it has one, without a name"
            title = f"`{broker}` has no log directory `{log_dir}`"
            scope.reader.error("E131", title, found[0].place, path=found[1], label=label)
            break


def _disk(brokers: Selector, log_dir: str | None) -> str:
    return f"the disk {log_dir} of {brokers}" if log_dir else f"the disk of {brokers}"


@verb(
    "flush",
    example="b1",
    more={"{brokers: b1, partition: t-0}": "Of one partition only."},
    usage="flush b1",
    disturbs=False,
)
class Flush(Verb):
    """fsync now."""

    brokers: Selector = key(BROKERS, bare=True)
    partition: TopicPartition | None = key(PARTITION, default=None, word=True)

    def sentence(self) -> str:
        return f"flush {self.partition or 'all logs'} on {self.brokers}"

    def tree(self) -> Any:
        return BROKERS.write(self.brokers) if self.partition is None else Verb.tree(self)


@verb("tear", example="{broker: b3, partition: t-0, bytes: 10}", usage="tear b1 orders-0 100B")
class Tear(Verb):
    """Cut bytes off the end of a stopped broker's log; its next start is unclean."""

    broker: Selector = key(BROKERS)
    partition: TopicPartition = key(PARTITION)
    size_bytes: int = key(BYTES, "bytes")

    def sentence(self) -> str:
        return f"tear {self.size_bytes} bytes off {self.partition} on {self.broker}"


@verb(
    "bitflip",
    example="{broker: b2, partition: t-0, offset: 5}",
    usage="bitflip b1 orders-0 7",
    lasts=Lasts.FOR_GOOD,
)
class Bitflip(Verb):
    """One bit of the batch at that offset changes on the disk, running or not; sendfile ships it unread."""

    broker: Selector = key(BROKERS)
    partition: TopicPartition = key(PARTITION)
    offset: int = key(integer(), asked="an offset")

    def sentence(self) -> str:
        return f"flip a bit of the batch at offset {self.offset} of {self.partition} on {self.broker}"


@verb(
    "slow_disk",
    example="{brokers: b1, append: 2s, read: 1s, throughput: 1MB/s}",
    usage="slow_disk b1 200ms",
    undoable=True,
    lasts=Lasts.UNTIL_ENDED,
    any_of=("append", "read", "throughput"),
)
class SlowDisk(Verb):
    """What each append and each read takes, one after the other. Without `read`, reads come from the page cache and
    take no time. `log_dir: d2` means one of a broker's disks.
    """

    brokers: Selector = key(BROKERS)
    log_dir: str | None = key(LOG_DIR, default=None)
    append_us: int = key(time(), "append", default=0)
    read_us: int = key(time(), "read", default=0)
    bytes_per_second: int | None = key(BANDWIDTH, "throughput", default=None)

    @property
    def service_time(self) -> ServiceTime:
        return ServiceTime(self.append_us, self.read_us, self.bytes_per_second)

    def sentence(self) -> str:
        return f"slow {_disk(self.brokers, self.log_dir)} down: {service_time_text(self.service_time)}"

    def judge(self, scope: Scope, given: Fields) -> None:
        _judge_log_dir(self.brokers, self.log_dir, scope, given)

    @classmethod
    def of_words(cls, words: ShorthandWords) -> object:
        brokers = words.take_listed("a broker")
        rate = words.take_if(RATE_WORD.fullmatch)
        if rate is not None:
            return {"brokers": brokers, "throughput": rate}
        asked = "how long an append takes, such as 200ms, or a throughput, such as 50kB/s"
        return {"brokers": brokers, "append": words.take(asked)}


@verb(
    "fill_disk",
    example="b1",
    more={"{brokers: b1, log_dir: d2}": "One of its disks."},
    usage="fill_disk b1 10s",
    undoable=True,
    lasts=Lasts.UNTIL_ENDED,
)
class FillDisk(Verb):
    """No byte more (ENOSPC): the next write takes the log directory offline."""

    brokers: Selector = key(ALL_BROKERS, bare=True)
    log_dir: str | None = key(LOG_DIR, default=None)

    def sentence(self) -> str:
        return f"fill {_disk(self.brokers, self.log_dir)}"

    def judge(self, scope: Scope, given: Fields) -> None:
        _judge_log_dir(self.brokers, self.log_dir, scope, given)


@verb(
    "fail_disk",
    example="b1",
    more={"{brokers: b1, log_dir: d2}": "One of its disks."},
    usage="fail_disk b1",
    lasts=Lasts.FOR_GOOD,
)
class FailDisk(Verb):
    """Every read and write fails (EIO), until a `wipe` replaces the disk. A broker without a directory left halts."""

    brokers: Selector = key(ALL_BROKERS, bare=True)
    log_dir: str | None = key(LOG_DIR, default=None)

    def sentence(self) -> str:
        return f"break {_disk(self.brokers, self.log_dir)}"

    def judge(self, scope: Scope, given: Fields) -> None:
        _judge_log_dir(self.brokers, self.log_dir, scope, given)

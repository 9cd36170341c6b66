"""Verbs of disks, which are flushed, torn, damaged, slowed down, filled or broken."""

from __future__ import annotations

from typing import Any

from replica.frozen import dataclass
from replica.ids import TopicPartition
from replica.log.files.disk import ServiceTime
from scenarios.language.selectors import Selector
from scenarios.language.values.links import ref, service_time_text
from scenarios.language.values.reading import Fields
from scenarios.language.values.scope import Scope
from scenarios.language.verbs.command_words import RATE_WORD, ShorthandWords
from scenarios.language.verbs.declaration import DAMAGE, LASTING, QUIET, Kind, Verb, key, verb
from scenarios.language.verbs.kinds import ALL_BROKERS, BANDWIDTH, BROKERS, BYTES, PARTITION, integer, time

LOG_DIR: Kind[str] = Kind(
    read=lambda value: value.reader.text(value.node, value.path, value.what),
    write=str,
    schema=ref("slug"),
    blank="",
    example="d2",
    asked="a log directory",
)


@dataclass(frozen=True, slots=True)
class OnDisk(Verb):
    """Base class of verbs about the disks of brokers: all disks, or one of a broker's `log.dirs`."""

    brokers: Selector = key(ALL_BROKERS, bare=True)
    log_dir: str | None = key(LOG_DIR, default=None)

    @property
    def disk(self) -> str:
        return f"the disk {self.log_dir} of {self.brokers}" if self.log_dir else f"the disk of {self.brokers}"

    def judge(self, scope: Scope, fields: Fields) -> None:
        found, log_dir = fields.get("log_dir"), self.log_dir
        if found is None or log_dir is None:
            return
        named = self.brokers.plain_names
        is_nowhere = not any(log_dir in dirs for dirs in scope.log_dirs.values())
        for broker in scope.brokers if named is None else named:
            known = scope.log_dirs.get(broker, ("",))
            if log_dir not in known and (named is not None or is_nowhere):
                label = (
                    f"its log.dirs: {', '.join(known)}"
                    if known != ("",)
                    else "it has one log directory, without a name"
                )
                title = f"`{broker}` has no log directory `{log_dir}`"
                scope.reader.error("E131", title, found[0].place, path=found[1], label=label)
                break


@verb(
    "flush",
    example="b1",
    more={"{brokers: b1, partition: t-0}": "Flush the log of one partition only."},
    usage="flush b1",
    effect=QUIET,
)
class Flush(Verb):
    """Flush logs to the disk now (fsync)."""

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


@verb("bitflip", example="{broker: b2, partition: t-0, offset: 5}", usage="bitflip b1 orders-0 7", effect=DAMAGE)
class Bitflip(Verb):
    """Flip one bit of the batch at that offset on the disk of a broker, up or down. sendfile sends the batch unread."""

    broker: Selector = key(BROKERS)
    partition: TopicPartition = key(PARTITION)
    offset: int = key(integer(), asked="an offset")

    def sentence(self) -> str:
        return f"flip a bit of the batch at offset {self.offset} of {self.partition} on {self.broker}"


@verb(
    "slow_disk",
    example="{brokers: b1, append: 2s, read: 1s, throughput: 1MB/s}",
    usage="slow_disk b1 200ms",
    effect=LASTING,
    any_of=("append", "read", "throughput"),
)
class SlowDisk(OnDisk):
    """Set how long appends and reads take. Without `read`, reads use the page cache. `log_dir: d2` slows only d2."""

    brokers: Selector = key(BROKERS)
    append_us: int = key(time(), "append", default=0)
    read_us: int = key(time(), "read", default=0)
    bytes_per_second: int | None = key(BANDWIDTH, "throughput", default=None)

    @property
    def service_time(self) -> ServiceTime:
        return ServiceTime(self.append_us, self.read_us, self.bytes_per_second)

    def sentence(self) -> str:
        return f"slow {self.disk} down: {service_time_text(self.service_time)}"

    @classmethod
    def of_words(cls, words: ShorthandWords) -> object:
        brokers = words.take_listed("a broker")
        rate = words.take_if(RATE_WORD.fullmatch)
        if rate is not None:
            return {"brokers": brokers, "throughput": rate}
        asked = "a time per append, such as 200ms, or a throughput, such as 50kB/s"
        return {"brokers": brokers, "append": words.take(asked)}


@verb(
    "fill_disk",
    example="b1",
    more={"{brokers: b1, log_dir: d2}": "Fill only one of its disks."},
    usage="fill_disk b1 10s",
    effect=LASTING,
)
class FillDisk(OnDisk):
    """Fill the disk (ENOSPC), so that the next write takes the log directory offline."""

    def sentence(self) -> str:
        return f"fill {self.disk}"


@verb(
    "fail_disk",
    example="b1",
    more={"{brokers: b1, log_dir: d2}": "Break only one of its disks."},
    usage="fail_disk b1",
    effect=DAMAGE,
)
class FailDisk(OnDisk):
    """Every read and write fails (EIO), until a `wipe` replaces the disk. A broker without a directory left halts."""

    def sentence(self) -> str:
        return f"break {self.disk}"

"""The messages between the process that runs a cluster and the processes of its nodes, over a socket pair each.

Messages are pickled: both ends belong to this run, the pair is inherited, and no other process can reach it. A message
is one packet (SOCK_SEQPACKET), or several if it is too large: clients decide how much there is to report. Of a message
whose sender is killed before its last part, nothing is taken.
"""

from __future__ import annotations

import pickle
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from cluster.live.observations import Observation
from cluster.network.links import HoldRule, Latency, Link, Network
from cluster.network.passage import ByteCounts
from replica.log.files.disk import Disk, ServiceTime
from replica.trace.events import TraceEvent

PACKET_BYTES = 1 << 20
"""The largest packet that is read."""
TOLD_BYTES = 1 << 17
"""The largest packet that a node sends. A system caps socket buffers, at 212,992 bytes unless it is set up otherwise
(net.core.wmem_max), and refuses with EMSGSIZE what does not fit into one."""
PART_BYTES = TOLD_BYTES - 1024
"""Size of one packet's part of a message that is too large for it."""
BUFFER_BYTES = 4 << 20


# ------------------------------------------------------------------------------------------------------------------ up


class NumberedEvent(NamedTuple):
    """Its own number and those of its causes count from 0 in each life of a node."""

    number: int
    causes: tuple[int, ...]
    event: TraceEvent


@dataclass(frozen=True, slots=True)
class EventsTold:
    """All events of one step: whole, because what holds after a step need not hold within it."""

    at_us: int
    events: tuple[NumberedEvent, ...]


@dataclass(frozen=True, slots=True)
class FileTold:
    """The part of a segment file that a disk keeps. how: opened, flushed, truncated or forgotten, at `size` bytes"""

    log_dir: str
    how: str
    path: str
    size: int


@dataclass(frozen=True, slots=True)
class BytesTold:
    counts: ByteCounts


@dataclass(frozen=True, slots=True)
class AnswerTold:
    """To the question of this number; in its place among the events."""

    at_us: int
    number: int
    value: object


@dataclass(frozen=True, slots=True)
class ObservationTold:
    """Data on a connection of an outside client; connections are numbered in each life."""

    at_us: int
    connection: int
    client: str
    observation: Observation


@dataclass(frozen=True, slots=True)
class OutsiderTold:
    """An outside client has connected for the first time."""

    client: str


@dataclass(frozen=True, slots=True)
class SettledTold:
    """The state of this number is in force."""

    number: int


@dataclass(frozen=True, slots=True)
class ExitTold:
    """The process ends by itself. how, why: as of Exit"""

    at_us: int
    how: str
    why: str


@dataclass(frozen=True, slots=True)
class PartTold:
    """A stretch of a message that is too large for a packet."""

    data: bytes
    is_last: bool


Told = EventsTold | FileTold | BytesTold | AnswerTold | ObservationTold | OutsiderTold | SettledTold | ExitTold


# ---------------------------------------------------------------------------------------------------------------- down


@dataclass(frozen=True, slots=True)
class LinkState:
    """The state of one link after faults and the scenario's settings."""

    source: str
    target: str
    base: Latency
    added: dict[str, Latency]
    loss: dict[str, float]
    bytes_per_second: dict[str, int]
    cuts: list[str]

    @classmethod
    def of(cls, link: Link) -> LinkState:
        return cls(
            link.source,
            link.target,
            link.base,
            dict(link.added),
            dict(link.loss),
            dict(link.bytes_per_second),
            list(link.cuts),
        )

    def bring_about(self, network: Network) -> None:
        link = network.link(self.source, self.target)
        link.base = self.base
        link.added, link.loss = dict(self.added), dict(self.loss)
        link.bytes_per_second, link.cuts = dict(self.bytes_per_second), list(self.cuts)


@dataclass(frozen=True, slots=True)
class DiskState:
    in_force: dict[str, ServiceTime]
    full: bool
    broken: bool

    @classmethod
    def of(cls, disk: Disk) -> DiskState:
        return cls(dict(disk.speed.in_force), disk.full, disk.broken)

    def bring_about(self, disk: Disk) -> None:
        disk.speed.in_force = dict(self.in_force)
        disk.full, disk.broken = self.full, self.broken


@dataclass(frozen=True, slots=True)
class NodeState:
    """The environment of one node, as set by the timeline.

    links: that begin or end there     dark: machines without power     clock_offset_us: of its wall clock
    """

    links: tuple[LinkState, ...] = ()
    holds: tuple[HoldRule, ...] = ()
    dark: tuple[str, ...] = ()
    disks: Mapping[str, DiskState] = field(default_factory=dict)
    clock_offset_us: int = 0


@dataclass(frozen=True, slots=True)
class Settle:
    number: int
    state: NodeState


@dataclass(frozen=True, slots=True)
class Ask:
    """An operator's request to the node's core, by the name of its method. answered: its answer is waited for"""

    number: int
    method: str
    arguments: tuple[object, ...]
    answered: bool


@dataclass(frozen=True, slots=True)
class Reset:
    """RST on every connection to a peer."""

    peer: str


Order = Settle | Ask | Reset


# ------------------------------------------------------------------------------------------------------------ the pair


def control_pair() -> tuple[socket.socket, socket.socket]:
    """(ours, not blocking; the node's, blocking: a process whose messages are not read stands still)"""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in (ours, theirs):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
    ours.setblocking(False)
    return ours, theirs


def packets(told: Told) -> Iterator[bytes]:
    """The message as one packet, or as several."""
    data = pickle.dumps(told, pickle.HIGHEST_PROTOCOL)
    if len(data) <= TOLD_BYTES:
        yield data
        return
    for first in range(0, len(data), PART_BYTES):
        after = first + PART_BYTES
        yield pickle.dumps(PartTold(data[first:after], is_last=after >= len(data)), pickle.HIGHEST_PROTOCOL)


class ToldParts:
    """Messages again out of packets."""

    def __init__(self) -> None:
        self._begun = bytearray()

    def take(self, packet: memoryview) -> Told | None:
        """None: the rest of the message is still to come."""
        message: Told | PartTold = pickle.loads(packet)  # noqa: S301  # from a process of this run
        if not isinstance(message, PartTold):
            return message
        self._begun += message.data
        if not message.is_last:
            return None
        told: Told = pickle.loads(self._begun)  # noqa: S301  # as above
        self._begun.clear()
        return told


def unpack_order(packet: bytes) -> Order:
    order: Order = pickle.loads(packet)  # noqa: S301  # from a process of this run
    return order

"""The messages between the process that runs a cluster and its node processes, over one socket pair each.

Messages are pickled: both ends belong to this run, the pair is inherited, and no other process can reach it. A message
is one packet (SOCK_SEQPACKET), or several if it is too large. If a sender is killed before the last part of a message,
the message is dropped.
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
from cluster.request_faults import RequestFault
from replica.log.files.disk import Disk, ServiceTime
from replica.trace.events import TraceEvent

PACKET_BYTES = 1 << 20
"""The maximum size of a packet that is read."""
TOLD_BYTES = 1 << 17
"""The maximum size of a packet that a node sends.

Linux limits socket buffers (net.core.wmem_max, 212,992 bytes by default) and refuses packets that do not fit into one
with EMSGSIZE.
"""
PART_BYTES = TOLD_BYTES - 1024
"""The size of one packet's part of a message that is too large for one packet."""
BUFFER_BYTES = 4 << 20


# ------------------------------------------------------------------------------------------------------------------ up


class NumberedEvent(NamedTuple):
    """An event with its number and those of its causes. Numbers count from 0 in each process of a node."""

    number: int
    causes: tuple[int, ...]
    event: TraceEvent


@dataclass(frozen=True, slots=True)
class EventsTold:
    """All events of one step. A message has a whole step, because invariants need not hold within a step."""

    at_us: int
    events: tuple[NumberedEvent, ...]


@dataclass(frozen=True, slots=True)
class FileTold:
    """An operation on a segment file, which determines the part of the file that survives a power loss.

    `how` is the operation: opened, flushed, truncated or forgotten. `size` is the file's size in bytes at that time.
    """

    log_dir: str
    how: str
    path: str
    size: int


@dataclass(frozen=True, slots=True)
class BytesTold:
    counts: ByteCounts


@dataclass(frozen=True, slots=True)
class AnswerTold:
    """The answer to a numbered request, sent in order with the events."""

    at_us: int
    number: int
    value: object


@dataclass(frozen=True, slots=True)
class ObservationTold:
    """Data observed on a connection of an outside client. Connection numbers begin again in each process of a node."""

    at_us: int
    connection: int
    client: str
    observation: Observation


@dataclass(frozen=True, slots=True)
class OutsiderTold:
    """The first connection of an outside client."""

    client: str


@dataclass(frozen=True, slots=True)
class SettledTold:
    """The report that the node state with this number is in force."""

    number: int


@dataclass(frozen=True, slots=True)
class ExitTold:
    """The end of a process by itself. `how` and `why` are as in Exit."""

    at_us: int
    how: str
    why: str


@dataclass(frozen=True, slots=True)
class PartTold:
    """One part of a message that is too large for a packet."""

    data: bytes
    is_last: bool


Told = EventsTold | FileTold | BytesTold | AnswerTold | ObservationTold | OutsiderTold | SettledTold | ExitTold


# ---------------------------------------------------------------------------------------------------------------- down


@dataclass(frozen=True, slots=True)
class LinkState:
    """The state of one link, with the scenario's settings and all active faults."""

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

    Attributes:
        links: links that begin or end at the node.
        dark: machines without power.
        clock_offset_us: offset of the node's wall clock.
    """

    links: tuple[LinkState, ...] = ()
    holds: tuple[HoldRule, ...] = ()
    request_faults: tuple[RequestFault, ...] = ()
    dark: tuple[str, ...] = ()
    disks: Mapping[str, DiskState] = field(default_factory=dict)
    clock_offset_us: int = 0


@dataclass(frozen=True, slots=True)
class Settle:
    number: int
    state: NodeState


@dataclass(frozen=True, slots=True)
class Ask:
    """An operator's request to the node's core, which calls a method by its name.

    If `answered` is True, the caller waits for the answer.
    """

    number: int
    method: str
    arguments: tuple[object, ...]
    answered: bool


@dataclass(frozen=True, slots=True)
class Reset:
    """The order to reset (RST) every connection to a peer."""

    peer: str


Order = Settle | Ask | Reset


# ------------------------------------------------------------------------------------------------------------ the pair


def control_pair() -> tuple[socket.socket, socket.socket]:
    """Return the main process's non-blocking end and the node's blocking end.

    A node whose messages are not read blocks.
    """
    own, node = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in (own, node):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
    own.setblocking(False)
    return own, node


def packets(told: Told) -> Iterator[bytes]:
    """Yield a message as one packet, or as several parts if it is too large."""
    data = pickle.dumps(told, pickle.HIGHEST_PROTOCOL)
    if len(data) <= TOLD_BYTES:
        yield data
        return
    for first in range(0, len(data), PART_BYTES):
        after = first + PART_BYTES
        yield pickle.dumps(PartTold(data[first:after], is_last=after >= len(data)), pickle.HIGHEST_PROTOCOL)


class ToldParts:
    """A buffer that assembles messages from packets."""

    def __init__(self) -> None:
        self._begun = bytearray()

    def take(self, packet: memoryview) -> Told | None:
        """Add a packet to the message. Return the message if it is complete, None if more parts follow."""
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

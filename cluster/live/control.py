"""The messages between the process that runs a cluster and its node processes, with one socket pair for each node.

Messages are pickled: both ends belong to this run, the pair is inherited, and no other process can reach it. A message
is one packet (SOCK_SEQPACKET), or several packets if it is too large. If a sender is killed before the last packet of a
message, the message is dropped.
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
"""The maximum size in bytes of a packet that is read."""
TOLD_BYTES = 1 << 17
"""The maximum size in bytes of a packet that a node sends.

Linux limits socket buffers (net.core.wmem_max, 212,992 bytes by default) and refuses with EMSGSIZE any packet that does
not fit into one.
"""
PART_BYTES = TOLD_BYTES - 1024
"""The size in bytes of the part of a larger message that one packet contains."""
BUFFER_BYTES = 4 << 20


# ------------------------------------------------------------------------------------------------------------------ up


class NumberedEvent(NamedTuple):
    """An event with its number and the numbers of its causes. Each process of a node counts its events from 0."""

    number: int
    causes: tuple[int, ...]
    event: TraceEvent


@dataclass(frozen=True, slots=True)
class EventsTold:
    """All events of one step. A step is never split between messages, because invariants need not hold within it."""

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
    """Something observed on an outside client's connection. Each process of a node numbers its connections anew."""

    at_us: int
    connection: int
    client: str
    observation: Observation


@dataclass(frozen=True, slots=True)
class OutsiderTold:
    """The message that a client from outside the cluster has connected for the first time."""

    client: str


@dataclass(frozen=True, slots=True)
class SettledTold:
    """The message that the node state with this number is in force."""

    number: int


@dataclass(frozen=True, slots=True)
class ExitTold:
    """The message that a process ends by itself. `how` and `why` are as in ProcessExit."""

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
    """The environment of one node: faults and other conditions that the scenario's timeline has set.

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
    """An operator's request to a node: the method of the node's core to call.

    Attributes:
        answered: True if the caller waits for an answer.
    """

    number: int
    method: str
    arguments: tuple[object, ...]
    answered: bool


@dataclass(frozen=True, slots=True)
class Reset:
    """An order to reset (RST) every connection to a peer."""

    peer: str


Order = Settle | Ask | Reset


# ------------------------------------------------------------------------------------------------------------ the pair


def control_pair() -> tuple[socket.socket, socket.socket]:
    """Return the non-blocking end of the main process, and the blocking end of a node.

    A node blocks if its messages are not read.
    """
    own, node = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in (own, node):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
    own.setblocking(False)
    return own, node


def packets(message: Told) -> Iterator[bytes]:
    """Yield a message as one packet, or as several parts if it is too large."""
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
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
        described: Told = pickle.loads(self._begun)  # noqa: S301  # as above
        self._begun.clear()
        return described


def unpack_order(packet: bytes) -> Order:
    order: Order = pickle.loads(packet)  # noqa: S301  # from a process of this run
    return order

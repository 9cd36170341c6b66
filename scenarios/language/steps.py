"""The steps of a timeline: one frozen class per verb, and when it happens. Data only; faults.py performs them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from replica.ids import TopicPartition
from scenarios.language.conditions import LogTest, NumberTest, RecordsTest, StateTest, TimeTest
from scenarios.language.disk_steps import Bitflip, BumpClock, FailDisk, FillDisk, SlowDisk, StrobeClock
from scenarios.language.selectors import Selector

DEFAULT = "default"
"""In a file, instead of the value of a dynamic setting: back to what it is by itself."""

Direction = Literal["both", "to", "from"]
"""Relative to the first side of `between`: `to` stops what travels to it, `from` what it sends."""


@dataclass(frozen=True, slots=True)
class Delay:
    """How long a message travels, microseconds.

    constant: least_us    uniform: least_us .. least_us + spread_us    exponential: least_us + Exp(mean spread_us)
    """

    kind: Literal["constant", "uniform", "exponential"]
    least_us: int
    spread_us: int = 0


# ------------------------------------------------------------------------------------------------------- process


@dataclass(frozen=True, slots=True)
class Start:
    nodes: Selector


@dataclass(frozen=True, slots=True)
class Stop:
    """Controlled shutdown (SIGTERM)."""

    nodes: Selector


@dataclass(frozen=True, slots=True)
class Kill:
    """SIGKILL: connections close at once, the page cache survives."""

    nodes: Selector


@dataclass(frozen=True, slots=True)
class PowerOff:
    """The machine is gone without a word, and every byte that was not flushed with it."""

    nodes: Selector


@dataclass(frozen=True, slots=True)
class Pause:
    nodes: Selector


@dataclass(frozen=True, slots=True)
class Resume:
    nodes: Selector


@dataclass(frozen=True, slots=True)
class Wipe:
    """Replace the disk of a broker that is down."""

    nodes: Selector


# ------------------------------------------------------------------------------------------------------- network


@dataclass(frozen=True, slots=True)
class PartitionNetwork:
    """No message passes between nodes of different islands; a node in no island reaches everybody."""

    islands: tuple[Selector, ...]


@dataclass(frozen=True, slots=True)
class Cut:
    """No message passes between the two sides (in `direction`) until healed."""

    side_a: Selector
    side_b: Selector
    direction: Direction = "both"


@dataclass(frozen=True, slots=True)
class Heal:
    """Undo partition, cut, latency, bandwidth and loss: those named by `as`, or all (`names` empty)."""

    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AddLatency:
    """Verb `latency`: on top of the link's own."""

    side_a: Selector
    side_b: Selector
    add: Delay
    direction: Direction = "both"


@dataclass(frozen=True, slots=True)
class LimitBandwidth:
    """Verb `bandwidth`."""

    side_a: Selector
    side_b: Selector
    bytes_per_second: int
    direction: Direction = "both"


@dataclass(frozen=True, slots=True)
class Loss:
    """Each message is lost with this probability (parts per million); on TCP that is a retransmission's delay."""

    side_a: Selector
    side_b: Selector
    rate_ppm: int
    direction: Direction = "both"


@dataclass(frozen=True, slots=True)
class ResetPeer:
    """Every open connection between the two sides is reset (RST): what is under way is gone, what has come is read."""

    side_a: Selector
    side_b: Selector


@dataclass(frozen=True, slots=True)
class Hold:
    """Messages of one API that travel from `sender` to `receiver` wait, in order, until released.

    api: Kafka's spelling, None for any       part: None for both request and response; body: a response is stopped
    between its header and its file bytes, which leave the file only on release
    """

    sender: Selector
    receiver: Selector
    api: str | None = None
    part: Literal["request", "response", "body"] | None = None


@dataclass(frozen=True, slots=True)
class Release:
    """Let held messages go: those of the named holds, or of all (`names` empty)."""

    names: tuple[str, ...] = ()


# ---------------------------------------------------------------------------------------------------------- disk


@dataclass(frozen=True, slots=True)
class Flush:
    """fsync now; partition None: everything the brokers have."""

    brokers: Selector
    partition: TopicPartition | None = None


@dataclass(frozen=True, slots=True)
class Tear:
    """Cut `size_bytes` off the end of a stopped broker's log, and make its last shutdown unclean."""

    broker: Selector
    partition: TopicPartition
    size_bytes: int


# ------------------------------------------------------------------------------------------------------- cluster


@dataclass(frozen=True, slots=True)
class Elect:
    """broker None: the preferred leader, or for `unclean` whoever is alive. partition None: every one it can lead."""

    broker: Selector | None = None
    partition: TopicPartition | None = None
    unclean: bool = False


@dataclass(frozen=True, slots=True)
class Reassign:
    """Move `partition` to these replicas (kafka-reassign-partitions), with --throttle if there is a rate."""

    partition: TopicPartition
    replicas: Selector
    bytes_per_second: int | None = None


@dataclass(frozen=True, slots=True)
class CancelReassign:
    partition: TopicPartition


@dataclass(frozen=True, slots=True)
class Throttle:
    """Replication quota of some brokers, for every replica that they have of `topic` (None: of all topics).

    bytes_per_second: None takes the quota away     side: what they send as leaders, fetch as followers, or both
    """

    brokers: Selector
    bytes_per_second: int | None
    side: Literal["both", "leader", "follower"] = "both"
    topic: str | None = None


@dataclass(frozen=True, slots=True)
class SetConfig:
    """Keys of a topic, or of brokers (one of the two is None); a value of None takes a key back to its default."""

    topic: str | None
    brokers: Selector | None
    config: tuple[tuple[str, str | None], ...]


# ------------------------------------------------------------------------------------------------------- clients


@dataclass(frozen=True, slots=True)
class Produce:
    """The application sends `count` records at once, `batch` records to a request.

    size_bytes: of each value       partition None: the partitioner's choice (murmur2 of the key, else sticky)
    """

    producer: str
    count: int
    batch: int = 1
    size_bytes: int = 100
    key: str | None = None
    partition: int | None = None


@dataclass(frozen=True, slots=True)
class Seek:
    consumer: str
    partition: TopicPartition
    to: int | Literal["beginning", "end"]


@dataclass(frozen=True, slots=True)
class Restart:
    """Kill and start at once: a client comes back with nothing remembered, a broker with its disk."""

    nodes: Selector


# -------------------------------------------------------------------------------------------------------- assert


@dataclass(frozen=True, slots=True)
class EndOffsetTest:
    """`client` asks for the end of `partition`; its first answer is an offset or an error. Both None: only ask."""

    client: str
    partition: TopicPartition
    offset: NumberTest | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Must hold at the moment the step fires; a failed check fails the run, which goes on."""

    state: StateTest | None = None
    logs: tuple[LogTest, ...] = ()
    records: tuple[RecordsTest, ...] = ()
    clock: TimeTest | None = None
    end_offset: EndOffsetTest | None = None


Payload = (
    Start
    | Stop
    | Kill
    | PowerOff
    | Pause
    | Resume
    | Wipe
    | PartitionNetwork
    | Cut
    | Heal
    | AddLatency
    | LimitBandwidth
    | Loss
    | ResetPeer
    | Hold
    | Release
    | Flush
    | Tear
    | Bitflip
    | SlowDisk
    | FillDisk
    | FailDisk
    | BumpClock
    | StrobeClock
    | Elect
    | Reassign
    | CancelReassign
    | Throttle
    | SetConfig
    | Produce
    | Seek
    | Restart
    | Check
)

VERBS: dict[str, type[Payload]] = {
    "start": Start,
    "stop": Stop,
    "kill": Kill,
    "power_off": PowerOff,
    "pause": Pause,
    "resume": Resume,
    "wipe": Wipe,
    "partition": PartitionNetwork,
    "cut": Cut,
    "heal": Heal,
    "latency": AddLatency,
    "bandwidth": LimitBandwidth,
    "loss": Loss,
    "reset_peer": ResetPeer,
    "hold": Hold,
    "release": Release,
    "flush": Flush,
    "tear": Tear,
    "bitflip": Bitflip,
    "slow_disk": SlowDisk,
    "fill_disk": FillDisk,
    "fail_disk": FailDisk,
    "bump_clock": BumpClock,
    "strobe_clock": StrobeClock,
    "elect": Elect,
    "reassign": Reassign,
    "cancel_reassign": CancelReassign,
    "throttle": Throttle,
    "set_config": SetConfig,
    "produce": Produce,
    "seek": Seek,
    "restart": Restart,
    "check": Check,
}
VERB_OF: dict[type[Payload], str] = {payload: verb for verb, payload in VERBS.items()}

UNDOABLE = (
    Stop,
    Kill,
    PowerOff,
    Pause,
    PartitionNetwork,
    Cut,
    AddLatency,
    LimitBandwidth,
    Loss,
    Hold,
    SlowDisk,
    FillDisk,
    BumpClock,
    StrobeClock,
)
"""What `for` can undo: start after stop, kill, power_off; resume after pause; heal; release; the clock goes back."""


@dataclass(frozen=True, slots=True)
class At:
    """At this instant of virtual time; steps of the same instant happen in the order of the file."""

    at_us: int


@dataclass(frozen=True, slots=True)
class When:
    """As soon as the state is so. Armed once the previous step of the list has fired (the first one: at 0).

    timeout_us: after arming; None waits to the end of the run. Running out of time is a failed check.
    """

    state: StateTest
    timeout_us: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One line of the timeline.

    index: position in the timeline, from 0     label: `as`, else None
    every_us, times: fire `times` times, `every_us` apart, the first time at the trigger
    for_us: undo it after that long             line: in the scenario's file, from 1 (0: unknown)
    """

    index: int
    trigger: At | When
    payload: Payload
    label: str | None = None
    every_us: int | None = None
    times: int = 1
    for_us: int | None = None
    line: int = field(default=0, compare=False)

    @property
    def verb(self) -> str:
        return VERB_OF[type(self.payload)]

    @property
    def name(self) -> str:
        """Name of the fault in the trace: its `as`, else verb-N with N counted from 1."""
        return self.label or f"{self.verb}-{self.index + 1}"

"""Verbs of the network: links are cut, slowed down and healed, and messages are held back."""

from __future__ import annotations

from typing import Literal

from scenarios.language.selectors import Selector
from scenarios.language.steps import Delay, Direction
from scenarios.language.values.links import Sides, delay_text
from scenarios.language.values.reading import Fields
from scenarios.language.values.scope import Scope
from scenarios.language.verbs.command_words import TIME_WORD, ShorthandWords, listed
from scenarios.language.verbs.declaration import LASTING, Verb, key, verb
from scenarios.language.verbs.kinds import (
    BANDWIDTH,
    DELAY,
    DIRECTION,
    ISLANDS,
    LINK_ENDS,
    SHARE,
    SIDES,
    choice,
    integer,
    labels_of,
)

HOLDABLE_APIS = (
    "Produce",
    "Fetch",
    "ListOffsets",
    "Metadata",
    "OffsetForLeaderEpoch",
    "InitProducerId",
    "ApiVersions",
    "CreateTopics",
    "ElectLeaders",
    "AlterPartition",
    "BrokerRegistration",
    "BrokerHeartbeat",
    "AllocateProducerIds",
    "FindCoordinator",
    "JoinGroup",
    "SyncGroup",
    "Heartbeat",
    "LeaveGroup",
    "ConsumerGroupHeartbeat",
    "OffsetCommit",
    "OffsetFetch",
    "AddPartitionsToTxn",
    "AddOffsetsToTxn",
    "TxnOffsetCommit",
    "EndTxn",
    "WriteTxnMarkers",
    "LeaderAndIsr",
    "StopReplica",
    "UpdateMetadata",
    "ControlledShutdown",
    "ZooKeeper",
)
Part = Literal["request", "response", "body"]
HELD_MAX = 10_000


def _direction(between: Sides, direction: Direction) -> str:
    item = between[0]
    return {"both": "", "to": f", only messages to {item}", "from": f", only messages from {item}"}[direction]


@verb("partition", example="[[b1], [b2, b3, c1]]", usage="partition b1 b2,b3,c1", effect=LASTING)
class PartitionNetwork(Verb):
    """Nothing passes between islands. A node in no island reaches all others."""

    islands: tuple[Selector, ...] = key(ISLANDS, bare=True)

    def sentence(self) -> str:
        return f"partition {' | '.join(map(str, self.islands))}"


@verb("cut", example="{between: [b1, [b2, b3]], direction: both}", usage="cut b1-b3", effect=LASTING)
class Cut(Verb):
    """Stop all messages between two sides until `heal`. `direction: to` stops only those to the first side, `from` only
    those that it sends.
    """

    between: Sides = key(SIDES)
    direction: Direction = key(DIRECTION, default="both", word=True)

    def sentence(self) -> str:
        item, two = self.between
        return f"cut {item} from {two}{_direction(self.between, self.direction)}"


@verb("heal", example="isolation", usage="heal")
class Heal(Verb):
    """Undo `partition`, `cut`, `latency`, `bandwidth`, `loss` by label, list of labels, or `all`."""

    names: tuple[str, ...] = key(labels_of("partition", "cut", "latency", "bandwidth", "loss"), default=(), bare=True)

    def sentence(self) -> str:
        return f"heal {', '.join(self.names) or 'everything'}"


@verb("latency", example="{between: [b1, b3], add: 200ms}", usage="latency b1-b2 200ms", effect=LASTING)
class AddLatency(Verb):
    """Slow a link down: `add` is any latency, added to that of the link. `direction` is that of `cut`."""

    between: Sides = key(SIDES)
    add: Delay = key(DELAY)
    direction: Direction = key(DIRECTION, default="both", word=True)

    def sentence(self) -> str:
        item, two = self.between
        direction = _direction(self.between, self.direction)
        return f"delay messages between {item} and {two} by {delay_text(self.add)}{direction}"


@verb("bandwidth", example="{between: [b1, b3], rate: 50kB/s}", usage="bandwidth b1-b2 50kB/s", effect=LASTING)
class LimitBandwidth(Verb):
    """Limit the bandwidth of a link."""

    between: Sides = key(SIDES)
    bytes_per_second: int = key(BANDWIDTH, "rate")
    direction: Direction = key(DIRECTION, default="both", word=True)

    def sentence(self) -> str:
        item, two = self.between
        direction = _direction(self.between, self.direction)
        return f"limit the bandwidth between {item} and {two} to {self.bytes_per_second:,} B/s{direction}"


@verb("loss", example="{between: [b1, b3], rate: 10%}", usage="loss b1-b2 5%", effect=LASTING)
class Loss(Verb):
    """Each message is lost with this probability; on TCP that is the delay of a retransmission."""

    between: Sides = key(SIDES)
    rate_ppm: int = key(SHARE, "rate")
    direction: Direction = key(DIRECTION, default="both", word=True)

    def sentence(self) -> str:
        item, two = self.between
        direction = _direction(self.between, self.direction)
        return f"lose {self.rate_ppm / 10_000:g} % of messages between {item} and {two}{direction}"


@verb("reset_peer", example="{between: [p1, b1]}", usage="reset_peer b1-b3")
class ResetPeer(Verb):
    """TCP RST on every connection between the sides: data under way is lost; data that has arrived can still be read,
    as on Linux.
    """

    between: Sides = key(SIDES)

    def sentence(self) -> str:
        item, two = self.between
        return f"reset the connections between {item} and {two}"


@verb(
    "hold",
    example="{from: b1, to: [b2, b3], api: Fetch, part: response}",
    more={
        "{from: b1, to: b3, api: Fetch, part: body}": (
            "Stop a Fetch response between its header and the bytes of the log file. The bytes are read on release,"
            " whatever the file holds by then."
        ),
        "{from: b1, to: p1, api: Produce, part: response, count: 1}": (
            "Hold only the next response, or the next `count` responses. Later messages on the same connection wait"
            " behind it; all other messages pass."
        ),
    },
    usage="hold b2-b1 Fetch request",
    effect=LASTING,
)
class Hold(Verb):
    """Messages travelling from `from` to `to` wait, in order. Without `api`, those of every API; without `part`,
    requests and responses.
    """

    sender: Selector = key(LINK_ENDS, "from")
    receiver: Selector = key(LINK_ENDS, "to")
    api: str | None = key(choice(*HOLDABLE_APIS), default=None)
    part: Part | None = key(choice("request", "response", "body", "both", for_none="both"), default=None)
    count: int | None = key(integer(1, HELD_MAX, example="1"), default=None)

    def sentence(self) -> str:
        noun = self.part or "message"
        nouns = "bodies" if noun == "body" else f"{noun}s"
        which = {None: "", 1: "the next"}.get(self.count, f"the next {self.count}")
        what = " ".join(filter(None, (which, self.api, noun if self.count == 1 else nouns)))
        if self.api is None and self.part is None and self.count is None:
            what = "everything"
        return f"hold {what} from {self.sender} to {self.receiver}"

    def judge(self, scope: Scope, fields: Fields) -> None:
        if self.part == "body" and self.api != "Fetch":
            title = "only responses of `api: Fetch` have a body that comes from a file"
            place, path = fields.key_place("part"), f"{fields.path}.part"
            scope.reader.error("E135", title, place, path=path, label="add `api: Fetch`")

    @classmethod
    def of_words(cls, words: ShorthandWords) -> object:
        sender, receiver = words.sides()
        tree = {"from": listed(sender), "to": listed(receiver)}
        part = words.take_if(("request", "response", "body", "both").__contains__)
        count = words.take_if(str.isdigit)
        api = words.take_if(lambda word: not TIME_WORD.fullmatch(word))
        optional = {"api": api, "part": part, "count": count}
        return tree | {name: word for name, word in optional.items() if word is not None}


@verb("release", example="freeze", usage="release")
class Release(Verb):
    """Let held messages go: those of a label, of a list of labels, or of `all`."""

    names: tuple[str, ...] = key(labels_of("hold"), default=(), bare=True)

    def sentence(self) -> str:
        return f"release {', '.join(self.names) or 'everything'}"

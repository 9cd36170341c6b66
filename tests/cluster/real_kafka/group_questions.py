"""Questions about groups, asked on the wire: of members of both protocols, in old and new versions of each API, with
right and wrong ids and epochs, in each state. `python group_questions.py BOOT BOOT` asks two clusters and prints what
differs.

Each cluster has one broker and SETTINGS. Member ids that were given out are told by the order in which a story meets
them, and whole answers but for times; where several members have KIP-848's partitions, how many each has.
"""

from __future__ import annotations

import dataclasses
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from uuid import UUID

from raw_client import RawClient
from transaction_questions import SETTINGS as OF_TRANSACTIONS
from transaction_questions import Asker as TransactionAsker
from transaction_questions import differences

from cluster.protocol.cold import decode_response, encode_request, request
from cluster.protocol.consumer_protocol import write_assignment
from cluster.protocol.versions import (
    CONSUMER_GROUP_DESCRIBE,
    CONSUMER_GROUP_HEARTBEAT,
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    LIST_GROUPS,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_DELETE,
    OFFSET_FETCH,
    SYNC_GROUP,
    api_name,
)
from replica.errors import ErrorCode
from replica.ids import TopicPartition
from tests.waiting import wait_for

SETTINGS = OF_TRANSACTIONS | {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.max.session.timeout.ms": "600000",
    "group.max.size": "3",
    "group.consumer.max.size": "3",
    "group.consumer.min.session.timeout.ms": "1000",
}
PATIENCE_S = 2
UNTOLD = ("throttle_time", "client_host", "authorized_operations", "group_id")
Story = Callable[["Asker"], None]
STORIES: list[Story] = []


def story(told: Story) -> Story:
    STORIES.append(told)
    return told


def says(*topics: str) -> bytes:
    names = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
    return b"\0\0" + len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff"


class Asker:
    """Each client has a connection of its own, so that one may wait for another; `epochs` has what they know last."""

    def __init__(self, bootstrap: str) -> None:
        self.lines: list[str] = []
        self._bootstrap, self._run = bootstrap, f"{time.time_ns():x}"
        self._topics: dict[UUID, str] = {}
        self.begin("prepare")

    def begin(self, title: str) -> None:
        self.group = f"{title}.{self._run}"
        self.ids: dict[str, str] = {}
        self.epochs: dict[str, int] = {}
        self.counts = False
        self._names: dict[str, str] = {}
        self._clients: dict[str, RawClient] = {}
        self._asked: dict[str, tuple[int, int, str]] = {}
        self.lines.append(f"# {title}")

    # ------------------------------------------------------------------------------------------------------- telling

    def _told(self, value: Any, name: str = "") -> str:
        if dataclasses.is_dataclass(value):
            shown = {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
            return ", ".join(f"{key} {self._told(of, key)}" for key, of in shown.items() if key not in UNTOLD)
        if isinstance(value, (list, tuple)):
            if self.counts and name == "partitions" and all(isinstance(one, int) for one in value):
                return f"{len(value)} of them"
            return f"[{'; '.join(sorted(self._named(self._told(one)) for one in value))}]"
        if isinstance(value, Mapping):
            return "{" + ", ".join(f"{key} {self._told(of, key)}" for key, of in value.items()) + "}"
        if isinstance(value, bytes) and self.counts:
            return f"{len(value)} bytes"
        if isinstance(value, UUID):
            return self._topics.get(value, str(value))
        return str(getattr(value, "name", value))

    def _named(self, text: str) -> str:
        for found in re.findall(r"[\w.]+-[0-9a-f]{8}-[0-9a-f-]{27}|(?<=member_id )[\w-]{22}(?=,|]|$)", text):
            self._names.setdefault(found, f"m{len(self._names) + 1}")
        for member_id, name in self._names.items():
            text = text.replace(member_id, name)
        return text.replace(self.group, "G")

    def send(self, who: str, api: int, v: int, **fields: Any) -> None:
        if who not in self._clients:
            self._clients[who] = RawClient.at(self._bootstrap, client_id=who)
            self._clients[who]._sock.settimeout(PATIENCE_S)
        question = f"{api_name(api)} v{v} {who} {self._told(fields)}"
        self._clients[who]._sock.sendall(encode_request(api, v, 1, who, request(api, v, **fields)))
        self._asked[who] = api, v, question

    def hear(self, who: str) -> Any:
        api, v, question = self._asked.pop(who)
        try:
            answer = decode_response(api, v, self._clients[who]._answer())
        except (TimeoutError, AssertionError, ConnectionError) as error:
            del self._clients[who]
            self.lines.append(self._named(f"{question} -> no answer: {error}"))
            return None
        self.lines.append(self._named(f"{question} -> {self._told(answer)}"))
        if api in (JOIN_GROUP, CONSUMER_GROUP_HEARTBEAT):
            if answer.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
                self.ids[who] = str(answer.member_id)
            if answer.error_code is ErrorCode.NONE:
                self.epochs[who] = int(getattr(answer, "generation_id", getattr(answer, "member_epoch", 0)))
        return answer

    def ask(self, who: str, api: int, v: int, *, waits: bool = False, **fields: Any) -> Any:
        """waits: the answer comes later"""
        self.send(who, api, v, **fields)
        return None if waits else self.hear(who)

    # ------------------------------------------------------------------------------------------------------ requests

    def join(self, who: str, v: int = 9, *, waits: bool = False, **given: Any) -> Any:
        fields = {
            "group_id": self.group, "session_timeout": 30_000, "rebalance_timeout": 60_000,
            "member_id": self.ids.get(who, ""), "protocol_type": "consumer", "group_instance_id": None,
            "protocols": [{"name": "range", "metadata": says("t")}],
        }  # fmt: skip
        return self.ask(who, JOIN_GROUP, v, waits=waits, **fields | given)

    def come(self, who: str, v: int = 9, **given: Any) -> Any:
        """join, twice where an id has to be fetched first"""
        if v >= 4 and not given.get("group_instance_id"):
            self.join(who, v, **given | {"waits": False})
        return self.join(who, v, **given)

    def _me(self, who: str, given: Mapping[str, Any], epoch: str = "generation_id") -> dict[str, Any]:
        me: dict[str, Any] = {"group_id": self.group, "member_id": self.ids.get(who, ""), "group_instance_id": None}
        return me | {epoch: self.epochs.get(who, -1)} | dict(given)

    def sync(self, who: str, v: int = 5, *, waits: bool = False, gives: Iterable[str] = (), **given: Any) -> Any:
        data = write_assignment([TopicPartition("t", 0), TopicPartition("t", 1)], 0)
        fields = {
            "protocol_type": "consumer", "protocol_name": "range",
            "assignments": [{"member_id": self.ids.get(one, one), "assignment": data} for one in gives],
        }  # fmt: skip
        return self.ask(who, SYNC_GROUP, v, waits=waits, **self._me(who, fields | given))

    def heartbeat(self, who: str, v: int = 4, **given: Any) -> Any:
        return self.ask(who, HEARTBEAT, v, **self._me(who, given))

    def leave(self, who: str, v: int = 5, member: str | None = None, instance: str | None = None) -> Any:
        one = {"member_id": self.ids.get(who, "") if member is None else member, "group_instance_id": instance}
        fields = {"member_id": one["member_id"]} if v < 3 else {"members": [one]}
        return self.ask("op", LEAVE_GROUP, v, group_id=self.group, **fields)

    def commit(self, who: str, v: int = 9, topic: str = "t", partition: int = 0, note: str = "", **given: Any) -> Any:
        part = {"partition_index": partition, "committed_offset": 5, "committed_metadata": note}
        topics = [{"name": topic, "partitions": [part]}]
        return self.ask(who, OFFSET_COMMIT, v, **self._me(who, given, "generation_id_or_member_epoch"), topics=topics)

    def fetch(self, who: str, v: int = 9, *, group: str | None = None, **given: Any) -> Any:
        topics = [{"name": "t", "partition_indexes": [0, 9]}, {"name": "none", "partition_indexes": [0]}]
        one: dict[str, Any] = {"group_id": self.group if group is None else group, "topics": topics}
        if v < 8:
            return self.ask(who, OFFSET_FETCH, v, **one)
        return self.ask(who, OFFSET_FETCH, v, groups=[one | given])

    def beat(self, who: str, v: int = 1, epoch: int | None = None, **given: Any) -> Any:
        """KIP-848's heartbeat: whole where it joins, which is its meaning without an epoch."""
        fields: dict[str, Any] = {
            "group_id": self.group, "member_id": self.ids.get(who, who if v else ""), "instance_id": None,
            "rack_id": None, "subscribed_topic_regex": None, "server_assignor": None,
            "member_epoch": self.epochs.get(who, 0) if epoch is None else epoch, "rebalance_timeout": -1,
            "subscribed_topic_names": None, "topic_partitions": None,
        }  # fmt: skip
        if fields["member_epoch"] == 0:
            fields |= {"rebalance_timeout": 60_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
        return self.ask(who, CONSUMER_GROUP_HEARTBEAT, v, **fields | given)

    def owning(self, *partitions: int) -> list[dict[str, Any]]:
        (topic_id,) = (key for key, name in self._topics.items() if name == "t")
        return [{"topic_id": topic_id, "partitions": list(partitions)}] if partitions else []

    def describe(self, *, v: int = 6) -> None:
        """Kafka tells what is in the log: a record of another group brings what was before it."""
        self.commit("op", group_id="other", generation_id_or_member_epoch=-1, member_id="")
        self.ask("op", DESCRIBE_GROUPS, v, groups=[self.group])
        self.ask("op", CONSUMER_GROUP_DESCRIBE, 1, group_ids=[self.group])
        for states, types in (([], []), (["stable"], ["Classic", "consumer"]), (["Empty"], []), (["None"], [])):
            self.send("op", LIST_GROUPS, 5, states_filter=states, types_filter=types)
            api, version, question = self._asked.pop("op")
            answer = decode_response(api, version, self._clients["op"]._answer())
            mine = [one for one in answer.groups if one.group_id == self.group]
            self.lines.append(self._named(f"{question} -> {answer.error_code.name} {self._told(mine)}"))

    def delete(self, v: int = 2, group: str | None = None) -> Any:
        return self.ask("op", DELETE_GROUPS, v, groups_names=[self.group if group is None else group])

    def delete_offsets(self, topic: str = "t", partition: int = 0) -> Any:
        topics = [{"name": topic, "partitions": [{"partition_index": partition}]}]
        return self.ask("op", OFFSET_DELETE, 0, group_id=self.group, topics=topics)

    def until(self, state: str) -> None:
        """The group is in this state; nothing is told."""

        def found() -> str:
            self.send("op", LIST_GROUPS, 5, states_filter=[], types_filter=[])
            api, version, _ = self._asked.pop("op")
            answer = decode_response(api, version, self._clients["op"]._answer())
            return next((str(one.group_state) for one in answer.groups if one.group_id == self.group), "")

        wait_for(found, holds=lambda known: known == state)

    def prepare(self) -> None:
        """Topics and coordinators: t has four partitions, u one."""
        TransactionAsker(self._bootstrap).prepare()
        answer = self.ask("op", METADATA, 12, topics=[{"name": "t"}, {"name": "u"}])
        self._topics = {one.topic_id: str(one.name) for one in answer.topics}
        for left in ("", "none"):
            self.delete(group=left)
        self.lines.clear()


# ------------------------------------------------------------------------------------------------------------- stories

WRONG: tuple[dict[str, Any], ...] = (
    {"member_id": "nobody"},
    {"member_id": ""},
    {"group_instance_id": "nobody"},
    {"group_id": ""},
    {"group_id": "none"},
)
PROTOCOLS = {name: [{"name": name, "metadata": says("t")}] for name in ("range", "other")}


def each_request(q: Asker, who: str, *, v: int = 0, epochs: tuple[int, ...] = (-1, 0, 1)) -> None:
    """Of a member, that change nothing: with its own id and epoch and with wrong ones."""
    at = q.epochs.get(who, 0)
    for given in ({}, *WRONG):
        if v >= 5 or "group_instance_id" not in given:
            q.heartbeat(who, min(v, 4), **given)
            q.commit(who, max(v, 2), **given)
            if given:
                q.sync(who, min(v, 5), **given)
    for more in epochs:
        if more:
            q.heartbeat(who, min(v, 4), generation_id=at + more)
            q.sync(who, min(v, 5), generation_id=at + more)
            q.commit(who, max(v, 2), generation_id_or_member_epoch=at + more)
    q.commit(who, max(v, 2), generation_id_or_member_epoch=-1)
    q.commit(who, max(v, 2), generation_id_or_member_epoch=-1, member_id="")
    q.fetch(who, max(v, 1))


@story
def refused_joins(q: Asker) -> None:
    for v in range(10):
        for given in (
            {"member_id": "nobody"}, {"group_id": ""}, {"protocols": []}, {"session_timeout": 999},
            {"protocol_type": ""}, {"session_timeout": 600_001}, {"session_timeout": -1}, {"rebalance_timeout": -5},
        ):  # fmt: skip
            q.begin(f"refused join {len(q.lines)}")
            q.join("a", v, **given)
    q.describe()


@story
def alone(q: Asker) -> None:
    for v in range(10):
        q.begin(f"alone{v}")
        q.come("a", v)
        q.describe(v=min(v, 6))
        each_request(q, "a", v=v, epochs=(1, -1))
        for given in ({"protocol_type": "other"}, {"protocols": PROTOCOLS["other"]}, {"protocols": []}):
            q.join("b", v, member_id="", **given)
        q.sync("a", min(v, 5), gives=["a"])
        q.describe(v=min(v, 6))
        each_request(q, "a", v=v)
        if v >= 5:
            q.sync("a", 5, protocol_type="other")
            q.sync("a", 5, protocol_name="other")
            q.sync("a", 5, protocol_name=None, protocol_type=None)
        q.sync("a", min(v, 5))
        q.join("a", v)
        q.sync("a", min(v, 5), gives=["a"])
        q.join("a", v, protocols=PROTOCOLS["other"])
        q.join("a", v, protocols=PROTOCOLS["other"])
        q.delete_offsets()
        q.delete(min(v, 2))
        for member in ("nobody", ""):
            q.leave("a", min(v, 5), member)
        q.leave("a", min(v, 5))
        q.leave("a", min(v, 5))
        q.describe(v=min(v, 6))
        each_request(q, "a", v=v)
        q.join("a", v)
        q.delete_offsets()
        q.delete_offsets("none", 7)
        q.delete(min(v, 2))
        q.delete(min(v, 2))
        each_request(q, "a", v=v)


@story
def several(q: Asker) -> None:
    for v in (0, 2, 5, 9):
        q.begin(f"several{v}")
        q.come("a", v)
        q.sync("a", min(v, 5), gives=["a"])
        q.come("b", v, waits=True)
        q.until("PreparingRebalance")
        q.describe()
        each_request(q, "a", v=v)
        q.sync("a", min(v, 5))
        q.join("a", v, waits=True)
        for who in ("a", "b"):
            q.hear(who)
        q.describe()
        for who in ("a", "b"):
            each_request(q, who, v=v)
        q.join("a", v)
        q.join("b", v)
        q.sync("b", min(v, 5), waits=True)
        q.sync("a", min(v, 5), gives=["a", "b"])
        q.hear("b")
        q.describe()
        q.join("b", v)
        q.join("a", v, waits=True)
        q.until("PreparingRebalance")
        q.leave("b", min(v, 5))
        q.hear("a")
        q.heartbeat("b", min(v, 4))
        q.describe()
        q.come("c", v, waits=True)
        q.until("PreparingRebalance")
        q.join("a", v)
        q.hear("c")
        q.sync("c", min(v, 5), waits=True)
        q.leave("a", min(v, 5))
        q.hear("c")
        q.join("c", v)
        q.describe()
        if v < 4:  # group.max.size: ids that were given out count here, too.
            for who in ("d", "e", "f"):
                q.join(who, v, waits=True, rebalance_timeout=1_000)
                time.sleep(0.2)
            q.join("c", v)
            for who in ("d", "e", "f"):
                q.hear(who)


@story
def static_members(q: Asker) -> None:
    for v in (5, 6, 9):
        q.begin(f"static{v}")
        me: dict[str, Any] = {"group_instance_id": "i"}
        other: dict[str, Any] = {"group_instance_id": "j"}
        q.join("a", v, **me)
        q.join("b", v, **me, waits=False, member_id="")
        each_request(q, "a", v=v)
        for instance in ("i", "j"):
            for who in ("a", "b"):
                q.heartbeat(who, group_instance_id=instance)
                q.commit(who, group_instance_id=instance)
                q.join(who, v, group_instance_id=instance, member_id="nobody")
        q.heartbeat("b", **me)
        q.sync("a", **me)
        q.sync("b", **me, gives=["b"])
        q.describe()
        q.join("b", v, **me)
        q.sync("b", **me, gives=["b"])
        q.join("c", v, **me, member_id="")
        q.describe()
        q.join("c", v, **me, protocols=PROTOCOLS["range"] + PROTOCOLS["other"])
        q.sync("c", **me, gives=["c"])
        q.join("d", v, **me, member_id="", protocols=PROTOCOLS["other"])
        q.sync("d", **me, protocol_name="other", gives=["d"])
        q.join("e", v, **other, protocols=PROTOCOLS["other"], waits=True)
        q.until("PreparingRebalance")
        q.join("f", v, **other, member_id="", protocols=PROTOCOLS["other"], waits=True)
        q.hear("e")
        q.join("d", v, **me, protocols=PROTOCOLS["other"])
        q.hear("f")
        q.sync("f", **other, protocol_name="other", waits=True)
        q.sync("d", **me, protocol_name="other", gives=["d", "f"])
        q.hear("f")
        q.join("g", v, **other, member_id="", protocols=PROTOCOLS["other"])
        q.describe()
        for member, instance in (("nobody", "i"), ("", "none"), ("nobody", None), (q.ids.get("f"), "j"), ("", "j")):
            q.leave("op", 5, member, instance)
        q.heartbeat("d", **me)
        q.leave("op", 3, q.ids.get("d"), None)
        q.describe()


@story
def commits(q: Asker) -> None:
    """To groups that nobody has joined."""
    for v in range(2, 10):
        given: Any
        for number, given in enumerate(
            (
                {},
                {"generation_id_or_member_epoch": 0},
                {"generation_id_or_member_epoch": 3, "member_id": "x"},
                {"member_id": "x"},
            )
        ):
            q.begin(f"commits{v}{number}")
            q.commit("a", v, **given)
            q.commit("a", v, topic="none", **given)
            q.commit("a", v, partition=9, **given)
            q.commit("a", v, note="x" * 4097, **given)
            q.fetch("a", v)
            q.fetch("a", v, group="")
            q.describe()
            q.delete_offsets("t", 1)
            q.delete(1)
        for group in ("", "none"):
            q.commit("a", v, group_id=group)
            q.delete(1, group)


@story
def sessions(q: Asker) -> None:
    q.come("a", session_timeout=1_000, rebalance_timeout=1_000)
    q.until("Empty")
    each_request(q, "a", v=9)
    q.come("b", session_timeout=30_000, rebalance_timeout=1_000)
    q.sync("b", gives=["b"])
    q.come("c", waits=True, rebalance_timeout=1_000)
    q.hear("c")
    q.heartbeat("b")
    q.describe()


@story
def refused_heartbeats(q: Asker) -> None:
    for v in (0, 1):
        given: Any
        for given in (
            {"group_id": ""}, {"group_id": " "}, {"member_id": ""}, {"member_id": " "}, {"instance_id": ""},
            {"instance_id": " "}, {"rack_id": ""}, {"rack_id": " "}, {"epoch": -1}, {"epoch": -2}, {"epoch": -3},
            {"epoch": 1}, {"epoch": -2, "instance_id": "i"}, {"epoch": -1, "instance_id": "i"},
            {"rebalance_timeout": -1},
            {"epoch": 1, "instance_id": "i"}, {"topic_partitions": None}, {"topic_partitions": q.owning(0)},
            {"subscribed_topic_names": None}, {"server_assignor": "none"}, {"server_assignor": ""},
            {"subscribed_topic_names": None, "subscribed_topic_regex": "t.*"}, {"subscribed_topic_regex": ""},
            {"epoch": 1, "rebalance_timeout": 0}, {"member_id": "x" * 40, "epoch": -1}, {"rebalance_timeout": 0},
        ):  # fmt: skip
            q.begin(f"refused heartbeat {len(q.lines)}")
            q.beat("a", v, **given)
            q.beat("a", v, **given | {"instance_id": "i", "epoch": -2, "member_id": ""})
    q.describe()


@story
def consumers(q: Asker) -> None:
    for v in (0, 1):
        q.begin(f"consumers{v}")
        q.beat("a", v)
        q.describe()
        q.beat("a", v)
        q.beat("a", v, topic_partitions=q.owning(0, 1, 2, 3))
        for epoch in (7, 1, 0):
            q.beat("a", v, epoch=epoch)
        q.beat("a", v, member_id="nobody", epoch=1)
        for version in range(2, 10):
            q.commit("a", version)
            q.commit("a", version, generation_id_or_member_epoch=9)
            q.commit("a", version, member_id="nobody")
            q.commit("a", version, generation_id_or_member_epoch=-1, member_id="")
        for member in (q.ids["a"], "nobody", None):
            for epoch in (q.epochs["a"], 9, -1):
                q.fetch("a", member_id=member, member_epoch=epoch)
        each_request(q, "a", v=9)
        q.beat("a", v, subscribed_topic_names=["t", "u"])
        q.beat("a", v, subscribed_topic_names=["none"])
        q.beat("a", v, subscribed_topic_names=[])
        q.beat("a", v, subscribed_topic_names=["u"], server_assignor="range")
        q.beat("a", v, server_assignor="other")
        q.describe()
        q.delete()
        q.delete_offsets()
        q.delete_offsets("u")
        q.leave("a", 5, "nobody")
        q.beat("a", v, epoch=-1)
        q.beat("a", v, epoch=-1)
        q.describe()
        each_request(q, "a", v=9)
        q.beat("a", v, epoch=2)
        q.beat("a", v, epoch=0)
        q.leave("a", 5)
        q.describe()
        q.come("b", 9)
        q.describe()


@story
def several_consumers(q: Asker) -> None:
    q.counts = True
    q.beat("a")
    q.beat("b")
    q.beat("b")
    q.describe()
    q.beat("a")
    q.beat("a", topic_partitions=q.owning(0, 1, 2, 3))
    q.beat("b")
    q.beat("a", topic_partitions=[])
    q.beat("b")
    q.beat("b", topic_partitions=[], epoch=1)
    q.describe()
    q.beat("a", epoch=1)
    q.beat("a", epoch=1, topic_partitions=[])
    q.beat("c")
    q.beat("d")
    for _ in range(2):
        for who in ("a", "b", "c"):
            q.beat(who, topic_partitions=[])
    q.describe()
    q.beat("b", epoch=-1)
    for who in ("a", "c"):
        q.beat(who)
    q.describe()
    q.leave("a")
    q.beat("a")
    q.beat("c")


@story
def static_consumers(q: Asker) -> None:
    me: dict[str, Any] = {"instance_id": "i"}
    q.beat("a", **me)
    q.beat("b", **me)
    q.beat("b", epoch=1, **me)
    for epoch in (-2, -1):
        q.beat("b", epoch=epoch, **me)
        q.beat("a", epoch=epoch, instance_id="j")
        q.beat("b", epoch=epoch)
    q.beat("a", epoch=-2, **me)
    q.describe()
    q.beat("a", epoch=1, **me)
    q.beat("a", epoch=-2, **me)
    q.beat("b", epoch=0, **me)
    q.describe()
    q.beat("a", epoch=1, **me)
    q.beat("b", **me)
    q.beat("b", epoch=0, **me)
    q.beat("b", epoch=1)
    q.beat("b", epoch=0)
    q.join("c", group_instance_id="i", member_id="")
    q.describe()
    q.leave("op", 5, "", "none")
    q.leave("op", 5, "", "i")
    q.describe()


@story
def patterns(q: Asker) -> None:
    q.counts = True
    any_of: dict[str, Any] = {"subscribed_topic_names": None, "topic_partitions": []}
    q.beat("a", subscribed_topic_regex="t.*", **any_of)
    q.until("Assigning")
    q.describe()
    q.beat("a")
    q.beat("b", subscribed_topic_regex="t.*", **any_of)
    q.beat("a")
    q.beat("a", topic_partitions=[])
    q.beat("b")
    q.describe()
    for pattern, names in (("u", ["t"]), ("u", []), ("", []), ("none.*", ["t"])):
        q.beat("a", subscribed_topic_regex=pattern, subscribed_topic_names=names)
        q.beat("a", epoch=-1)
        q.until("Assigning")
        q.beat("b", topic_partitions=[])
        q.beat("b")
        q.describe()
        q.beat("a", epoch=0, subscribed_topic_regex="t.*", **any_of)
        q.beat("b", topic_partitions=[])
        q.beat("a")
    q.beat("c", subscribed_topic_regex="none.*", **any_of)
    q.beat("c")
    q.beat("c", epoch=-1)
    q.describe()


@story
def late_consumers(q: Asker) -> None:
    """One does not give up its partitions, and classic ones do not come back."""
    q.counts = True
    q.beat("a", rebalance_timeout=1_000)
    q.beat("b")
    q.beat("a")
    q.describe()
    time.sleep(1.5)
    q.describe()
    q.beat("a")
    q.beat("b", topic_partitions=[])
    q.come("c", session_timeout=1_000)
    time.sleep(1.5)
    q.sync("c")
    q.ids.pop("c")
    q.come("c", rebalance_timeout=1_000)
    time.sleep(1.5)
    q.sync("c")
    q.ids.pop("c")
    q.come("c", rebalance_timeout=1_000)
    q.sync("c")
    q.beat("d")
    q.heartbeat("c")
    time.sleep(1.5)
    q.heartbeat("c")
    q.beat("b", epoch=-1)
    q.beat("d")
    q.describe()


@story
def static_downgrades(q: Asker) -> None:
    """A classic client takes the place of the last member of KIP-848: same topics, others, without its pattern."""
    for number, (wanted, topic) in enumerate(((["t"], "t"), (["t"], "u"), (None, "t"))):
        q.begin(f"static downgrade {number}")
        q.counts = True
        q.beat("a", instance_id="i", subscribed_topic_names=wanted, subscribed_topic_regex=None if wanted else "t.*")
        q.until("Stable" if wanted else "Assigning")
        q.join("b", group_instance_id="j", member_id="")
        q.sync("b", group_instance_id="j")
        q.beat("a", topic_partitions=q.owning(0, 1), instance_id="i")
        q.describe()
        protocols = [{"name": "range", "metadata": says(topic)}]
        q.join("c", group_instance_id="i", member_id="", protocols=protocols)
        q.describe()
        for who, instance in (("c", "i"), ("b", "j"), ("a", "i")):
            q.heartbeat(who, group_instance_id=instance)
        q.sync("c", group_instance_id="i")
        q.beat("a", instance_id="i")


@story
def upgrades(q: Asker) -> None:
    for v in (0, 5, 9):
        q.begin(f"upgrades{v}")
        q.counts = True
        q.come("a", v)
        q.beat("k", epoch=0)
        q.sync("a", min(v, 5), gives=["a"])
        q.beat("k", epoch=1)
        q.beat("k", epoch=-1)
        q.beat("k", epoch=0)
        q.describe()
        each_request(q, "a", v=v)
        each_request(q, "k", v=v)
        q.sync("a", min(v, 5))
        for given in (
            {"protocols": PROTOCOLS["other"]}, {"protocol_type": "x"},
            {"protocols": [{"name": "range", "metadata": b"x"}]}, {"protocols": []},
            {"member_id": "nobody", "protocols": []}, {"session_timeout": 1},
        ):  # fmt: skip
            q.join("a", v, **given)
        q.join("a", v)
        q.heartbeat("a", min(v, 4))
        q.sync("a", min(v, 5))
        q.heartbeat("a", min(v, 4))
        q.beat("k")
        each_request(q, "a", v=v)
        q.describe()
        q.beat("k", epoch=-1)
        q.describe()
        each_request(q, "a", v=v)
        q.join("a", v)
        q.sync("a", min(v, 5), gives=["a"])
        q.leave("a", min(v, 5))
        q.beat("k", epoch=0)
        q.come("b", v)
        q.sync("b", min(v, 5))
        q.leave("b", min(v, 5))
        q.describe()
    q.begin("refused upgrade")
    q.come("a", protocol_type="other")
    q.beat("k")
    q.describe()


def ask(bootstrap: str, *only: str) -> list[str]:
    """What a cluster answers. only: these stories"""
    asker = Asker(bootstrap)
    asker.prepare()
    for one in STORIES:
        if not only or one.__name__ in only:
            asker.begin(one.__name__)
            one(asker)
    return asker.lines


if __name__ == "__main__":
    answers = [ask(bootstrap, *sys.argv[3:]) for bootstrap in sys.argv[1:3]]
    print(f"{sum(' -> ' in line for line in answers[0])} questions")
    print("\n".join(differences(*answers)) or "nothing differs")

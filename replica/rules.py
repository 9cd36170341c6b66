"""The switches that select the replication rules of a Kafka release, and their values for each era.

Most historic bugs of Kafka's replication are a single rule that a later release changed. Each such rule is a switch: a
field of `Rules`, which is read only by the code that implements the rule. An era is the rules of a release, such as
`kafka-2.0`: a value for every switch. The default settings of a release are in cluster/defaults.py.

Source: MetadataVersion.java and the KIP or ticket of each switch
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields, replace
from functools import cache
from typing import Any, Final, Literal, NamedTuple, Self, TypeVar, get_args, get_type_hints

Switch = str | bool
T = TypeVar("T")


def _switch(default: Switch, *, since: str) -> Any:
    """Declare a switch as a dataclass field. The type of the field lists the values from old to new.

    `since` names the changes of Kafka that introduced the newer values.
    """
    return field(default=default, metadata={"since": since})


class KafkaRelease(NamedTuple):
    """A release of Kafka. Releases are compared with `<` and `>=`, not by name."""

    major: int
    minor: int

    @classmethod
    def parsed(cls, text: str) -> KafkaRelease:
        """Return the release of a text such as 4.1 or kafka-4.1."""
        major, minor = text.removeprefix("kafka-").split(".")
        return cls(int(major), int(minor))

    @property
    def era(self) -> str:
        """The name of the era with this release, such as kafka-4.1."""
        return f"kafka-{self}"

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


def as_of(changes: Mapping[KafkaRelease, T], release: KafkaRelease, before: T) -> T:
    """Return the value in a release: that of the latest change up to this release, or `before` if there is none.

    Args:
        changes: the new value by release, from old to new.
    """
    return next((changes[since] for since in reversed(list(changes)) if since <= release), before)


_NEWEST: Final = KafkaRelease(4, 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The protocol rules of an era: the value of each switch. The defaults are the values of the latest era."""

    truncation: Literal["high-watermark", "leader-epoch", "leader-epoch-exact", "on-fetch"] = _switch(
        "on-fetch", since="KIP-101 (0.11.0-IV2), KIP-279 (2.0-IV0), KAFKA-10554 (2.7)"
    )
    fetch_fencing: Literal["none", "leader-epoch"] = _switch("leader-epoch", since="KIP-320 (2.1-IV1)")
    follower_ahead: Literal["halt", "truncate"] = _switch("truncate", since="KAFKA-7414 (2.0.1)")
    membership: Literal["zk-session", "registration"] = _switch("registration", since="KIP-500 (KRaft)")
    control_fencing: Literal["none", "controller-epoch", "broker-epoch"] = _switch(
        "broker-epoch", since="KAFKA-1188 (0.8.1), KIP-380 (2.2-IV0)"
    )
    isr_update: Literal["leader-writes", "alter-partition"] = _switch("alter-partition", since="KIP-497 (2.7-IV2)")
    isr_eligibility: Literal["any", "unfenced", "broker-epoch"] = _switch(
        "broker-epoch", since="KIP-841 (3.3-IV3), KIP-903 (3.5-IV1)"
    )
    isr_join: Literal["high-watermark", "epoch-start"] = _switch("epoch-start", since="KAFKA-7128 (2.0.1)")
    isr_lag: Literal["messages", "time"] = _switch("time", since="KIP-16, KAFKA-1546 (0.9)")
    hw_advance: Literal["isr", "min-isr"] = _switch("min-isr", since="KAFKA-15583 (3.7)")
    hw_push: Literal["next-fetch", "immediate"] = _switch("next-fetch", since="KAFKA-9731, KAFKA-9952 (2.4 only)")
    read_replica: Literal["any", "in-sync"] = _switch("in-sync", since="KAFKA-14372 (3.3.2)")
    fetch_minimum: Literal["none", "one-batch"] = _switch("one-batch", since="KIP-74 (0.10.1)")
    unknown_producer: Literal["out-of-order", "refused", "accepted"] = _switch(
        "accepted", since="KAFKA-5793 (1.0), KAFKA-7190 (2.4), KIP-360 (2.5)"
    )
    list_offsets_guard: bool = _switch(True, since="KIP-207 (2.2-IV1)")
    consumer_limit: Literal["high-watermark", "log-end"] = _switch(
        "high-watermark", since="never released; for teaching only"
    )
    expired_memory: Literal["freed", "kept"] = _switch("kept", since="KAFKA-19012 (3.9.2, 4.0.2, 4.1.2)")
    consumer_truncation_check: bool = _switch(True, since="KIP-320, KAFKA-7747 (2.3)")
    elr: bool = _switch(True, since="KIP-966 (4.0-IV1, default from 4.1)")
    elr_on_directory_report: Literal["cleared", "kept"] = _switch("kept", since="apache/kafka#20716 (4.3)")
    reassignment_done: Literal["added-alone", "all-in-sync", "added-in-sync"] = _switch(
        "added-in-sync", since="KAFKA-15665 (3.8), KAFKA-19975 (4.3)"
    )
    heartbeats: Literal["backoff", "interval"] = _switch("interval", since="KAFKA-19294 (4.1)")
    session_checks: Literal["at-the-end", "periodic"] = _switch("periodic", since="KAFKA-17793 (4.0)")
    quorum_vote: Literal["vote", "pre-vote"] = _switch("pre-vote", since="KIP-996 (4.0)")
    startup_port: Literal["open", "closed"] = _switch("closed", since="KAFKA-14658 (3.5)")
    transactions: Literal["none", "v1", "verified", "v2"] = _switch(
        "v2", since="KIP-98 (0.11), KIP-890 part 1 (3.6), part 2 (4.0-IV2)"
    )
    marker_epoch: Literal["not-older", "newer"] = _switch("newer", since="KIP-1228 (4.2)")
    group_rebalance: Literal["eager", "cooperative", "consumer"] = _switch(
        "consumer", since="KIP-429 (2.4), KIP-848 (4.0; preview in 3.7)"
    )
    commit_epoch: Literal["member", "assignment"] = _switch("assignment", since="KIP-1251 (4.3)")
    release: KafkaRelease = _NEWEST
    """The release of the era. It decides everything that has no switch, such as API versions and features."""

    @classmethod
    @cache
    def switches(cls) -> dict[str, tuple[str, tuple[str, ...]]]:
        """Return (attribute, choices) of each switch, by its name in scenarios; choices are () for a boolean switch."""
        types = get_type_hints(cls)
        return {name: (item.name, get_args(types[item.name])) for name, item in _switches(cls).items()}

    @classmethod
    def since(cls, switch: str) -> str:
        """Return the changes of Kafka that introduced the newer values of a switch."""
        return str(_switches(cls)[switch].metadata["since"])

    def value(self, switch: str) -> Switch:
        found: Switch = getattr(self, self.switches()[switch][0])
        return found

    def as_mapping(self) -> dict[str, Switch]:
        """Return the value of each switch, by its name in scenarios."""
        return {switch: self.value(switch) for switch in self.switches()}

    def unlike(self, other: Rules) -> dict[str, Switch]:
        """Return the switches whose values differ from those in `other`, with the values in these rules."""
        return {switch: value for switch, value in self.as_mapping().items() if other.value(switch) != value}

    def changed(self, values: Mapping[str, Switch]) -> Self:
        """Return a copy with new values of switches, by their names in scenarios.

        Raises:
            KeyError: if a name is unknown.
        """
        names = self.switches()
        flipped: dict[str, Any] = {names[switch][0]: value for switch, value in values.items()}
        return replace(self, **flipped)


def _switches(rules: type[Rules]) -> dict[str, Field[Any]]:
    """Return the fields of the switches, by their names in scenarios."""
    return {item.name.replace("_", "-"): item for item in fields(rules) if item.metadata}


def _eras() -> dict[str, Rules]:
    """Return the rules of each era by name. Each era is built from the next later era."""
    v4_4 = Rules()
    v4_3 = v4_4
    v4_2 = replace(v4_3, elr_on_directory_report="cleared", reassignment_done="all-in-sync", commit_epoch="member")
    v4_1 = replace(v4_2, marker_epoch="not-older")
    v3_9 = replace(
        v4_1,
        elr=False,
        heartbeats="backoff",
        session_checks="at-the-end",
        quorum_vote="vote",
        transactions="verified",
        group_rebalance="cooperative",
    )
    v3_5 = replace(v3_9, hw_advance="isr", transactions="v1", reassignment_done="added-alone", expired_memory="freed")
    v3_3 = replace(v3_5, isr_eligibility="unfenced", startup_port="open")
    v2_7 = replace(v3_3, isr_eligibility="any", membership="zk-session", read_replica="any")
    v2_1 = replace(
        v2_7,
        isr_update="leader-writes",
        truncation="leader-epoch-exact",
        control_fencing="controller-epoch",
        list_offsets_guard=False,
        consumer_truncation_check=False,
        unknown_producer="refused",
        group_rebalance="eager",
    )
    # This is 2.0.1, which has KAFKA-7128, 7164, 7414 and 7415. Release 2.0.0 has the truncation of 2.0 and otherwise
    # the rules of 0.11.
    v2_0 = replace(v2_1, fetch_fencing="none")
    v0_11 = replace(
        v2_0,
        truncation="leader-epoch",
        follower_ahead="halt",
        isr_join="high-watermark",
        unknown_producer="out-of-order",
    )
    # The rules are those of 0.10.0, before KIP-74; the APIs are those of 0.10.2.
    v0_10 = replace(v0_11, truncation="high-watermark", transactions="none", fetch_minimum="none")
    v0_8 = replace(v0_10, isr_lag="messages", control_fencing="none")
    eras = {
        "0.8": v0_8,
        "0.10": v0_10,
        "0.11": v0_11,
        "2.0": v2_0,
        "2.1": v2_1,
        "2.7": v2_7,
        "3.3": v3_3,
        "3.5": v3_5,
        "3.9": v3_9,
        "4.1": v4_1,
        "4.2": v4_2,
        "4.3": v4_3,
        "4.4": v4_4,
    }
    releases = {KafkaRelease.parsed(text): rules for text, rules in eras.items()}
    return {release.era: replace(rules, release=release) for release, rules in releases.items()}


CONSUMER_GROUPS_SINCE = KafkaRelease(3, 9)
"""The first era with the APIs of KIP-848. In that era they are a preview (since Kafka 3.7), off by default."""

NEXT_COORDINATOR_SINCE = KafkaRelease(4, 0)
"""The first release with the group coordinator of KIP-848, which also handles classic groups (KAFKA-17593).

From this release on, groups have settings (ConfigResource.Type has GROUP: KAFKA-14510, KAFKA-14511), and brokers
evaluate a member's topic pattern (ConsumerGroupHeartbeat 1, KAFKA-15561).
"""

SHARE_GROUPS_SINCE = KafkaRelease(4, 2)
"""The first release in which share groups are enabled in new clusters (KIP-932)."""

PROFILES: Mapping[str, Rules] = _eras()
"""The rules of each era by name, oldest first."""

DEFAULT_PROFILE: Final = max(PROFILES, key=lambda era: PROFILES[era].release)
"""The latest era, which is used if a scenario or a command names no era."""


def first_era(since: KafkaRelease) -> str:
    """Return the name of the oldest era whose release is `since` or later."""
    return next(era for era, rules in PROFILES.items() if rules.release >= since)


def spelled(value: Switch) -> str:
    """Return the value of a switch as text, spelled as in scenarios."""
    return str(value).lower() if isinstance(value, bool) else value


class Contradiction(NamedTuple):
    """The reason why no Kafka release could have a combination of rules, and advice on how to change the rules."""

    why: str
    remedy: str


def contradiction(rules: Rules) -> Contradiction | None:
    """Return the contradiction in a combination of rules, None if a Kafka release could have them."""
    if rules.elr and rules.membership == "zk-session":
        why = "`elr: true` needs `membership: registration`: eligible leader replicas are kept in KRaft's metadata log"
        return Contradiction(why, "also set `elr: false`, or use an older profile")
    if rules.group_rebalance == "consumer" and rules.release < CONSUMER_GROUPS_SINCE:
        why = f"`group-rebalance: consumer` needs an API that Kafka {rules.release} does not have"
        return Contradiction(why, f"use `profile: {first_era(CONSUMER_GROUPS_SINCE)}` or a later profile")
    return None

"""The switchable rules of replication, and the eras of Kafka that fix them all.

Most historic bugs of Kafka's replication are one rule that a later release changed. Each such rule is a switch: a field
of `Rules`, asked for by that name at the one place that implements it. A profile (`kafka-2.0`) is the value of every
switch at that release; numeric defaults are not part of it.

source: MetadataVersion.java and the KIP or ticket beside each switch
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any, Literal, NamedTuple, Self

Switch = str | bool


def _switch(name: str, default: Switch, choices: tuple[str, ...] = (), *, since: str) -> Any:
    """choices: old to new, none for true/false     since: the change that brought the newer values"""
    return field(default=default, metadata={"switch": name, "choices": choices, "since": since})


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Defaults are the newest value of each switch."""

    truncation: Literal["high-watermark", "leader-epoch", "leader-epoch-exact", "on-fetch"] = _switch(
        "truncation",
        "on-fetch",
        ("high-watermark", "leader-epoch", "leader-epoch-exact", "on-fetch"),
        since="KIP-101 (0.11.0-IV2), KIP-279 (2.0-IV0), KAFKA-10554 (2.7)",
    )
    fetch_fencing: Literal["none", "leader-epoch"] = _switch(
        "fetch-fencing", "leader-epoch", ("none", "leader-epoch"), since="KIP-320 (2.1-IV1)"
    )
    follower_ahead: Literal["halt", "truncate"] = _switch(
        "follower-ahead", "truncate", ("halt", "truncate"), since="KAFKA-7414 (2.0.1)"
    )
    membership: Literal["zk-session", "registration"] = _switch(
        "membership", "registration", ("zk-session", "registration"), since="KIP-500 (KRaft)"
    )
    control_fencing: Literal["none", "controller-epoch", "broker-epoch"] = _switch(
        "control-fencing",
        "broker-epoch",
        ("none", "controller-epoch", "broker-epoch"),
        since="KAFKA-1188 (0.8.1), KIP-380 (2.2-IV0)",
    )
    isr_update: Literal["leader-writes", "alter-partition"] = _switch(
        "isr-update", "alter-partition", ("leader-writes", "alter-partition"), since="KIP-497 (2.7-IV2)"
    )
    isr_eligibility: Literal["any", "unfenced", "broker-epoch"] = _switch(
        "isr-eligibility",
        "broker-epoch",
        ("any", "unfenced", "broker-epoch"),
        since="KIP-841 (3.3-IV3), KIP-903 (3.5-IV1)",
    )
    isr_join: Literal["high-watermark", "epoch-start"] = _switch(
        "isr-join", "epoch-start", ("high-watermark", "epoch-start"), since="KAFKA-7128 (2.0.1)"
    )
    isr_lag: Literal["messages", "time"] = _switch(
        "isr-lag", "time", ("messages", "time"), since="KIP-16, KAFKA-1546 (0.9)"
    )
    hw_advance: Literal["isr", "min-isr"] = _switch(
        "hw-advance", "min-isr", ("isr", "min-isr"), since="KAFKA-15583 (3.7)"
    )
    hw_push: Literal["next-fetch", "immediate"] = _switch(
        "hw-push", "next-fetch", ("next-fetch", "immediate"), since="KAFKA-9731, KAFKA-9952 (2.4 only)"
    )
    fetch_minimum: Literal["none", "one-batch"] = _switch(
        "fetch-minimum", "one-batch", ("none", "one-batch"), since="KIP-74 (0.10.1)"
    )
    unknown_producer: Literal["out-of-order", "refused", "accepted"] = _switch(
        "unknown-producer",
        "accepted",
        ("out-of-order", "refused", "accepted"),
        since="KAFKA-5793 (1.0), KAFKA-7190 (2.4), KIP-360 (2.5)",
    )
    list_offsets_guard: bool = _switch("list-offsets-guard", True, since="KIP-207 (2.2-IV1)")
    consumer_limit: Literal["high-watermark", "log-end"] = _switch(
        "consumer-limit", "high-watermark", ("high-watermark", "log-end"), since="never shipped: a teaching mutant"
    )
    consumer_truncation_check: bool = _switch("consumer-truncation-check", True, since="KIP-320, KAFKA-7747 (2.3)")
    elr: bool = _switch("elr", True, since="KIP-966 (4.0-IV1, on from 4.1)")
    heartbeats: Literal["backoff", "interval"] = _switch(
        "heartbeats", "interval", ("backoff", "interval"), since="KAFKA-19294 (4.1)"
    )
    session_checks: Literal["at-the-end", "periodic"] = _switch(
        "session-checks", "periodic", ("at-the-end", "periodic"), since="KAFKA-17793 (4.0)"
    )
    startup_port: Literal["open", "closed"] = _switch(
        "startup-port", "closed", ("open", "closed"), since="KAFKA-14658 (3.5)"
    )
    transactions: Literal["none", "v1", "verified", "v2"] = _switch(
        "transactions",
        "v2",
        ("none", "v1", "verified", "v2"),
        since="KIP-98 (0.11), KIP-890 part 1 (3.6), part 2 (4.0-IV2)",
    )
    group_rebalance: Literal["eager", "cooperative", "consumer"] = _switch(
        "group-rebalance",
        "consumer",
        ("eager", "cooperative", "consumer"),
        since="KIP-429 (2.4), KIP-848 (4.0; a preview in 3.7)",
    )
    release: str = "4.1"
    """Of the era: a broker's properties that no switch decides (versions of its APIs, features)."""

    @classmethod
    def switches(cls) -> dict[str, tuple[str, tuple[str, ...]]]:
        """Every switch as scenarios spell it: attribute, choices (none for true/false)."""
        return {item.metadata["switch"]: (item.name, item.metadata["choices"]) for item in _switches(cls)}

    @classmethod
    def since(cls, switch: str) -> str:
        """The change that brought the newer values of a switch."""
        found: str = next(item.metadata["since"] for item in _switches(cls) if item.metadata["switch"] == switch)
        return found

    def value(self, switch: str) -> Switch:
        found: Switch = getattr(self, self.switches()[switch][0])
        return found

    def as_mapping(self) -> dict[str, Switch]:
        """By the names scenarios use."""
        return {switch: self.value(switch) for switch in self.switches()}

    def unlike(self, other: Rules) -> dict[str, Switch]:
        """The switches whose value differs, with the value here."""
        return {switch: value for switch, value in self.as_mapping().items() if other.value(switch) != value}

    def changed(self, values: Mapping[str, Switch]) -> Self:
        """values: by the names scenarios use; raises: KeyError for an unknown one"""
        names = self.switches()
        flipped: dict[str, Any] = {names[switch][0]: value for switch, value in values.items()}
        return replace(self, **flipped)


def _switches(rules: type[Rules]) -> list[Field[Any]]:
    return [item for item in fields(rules) if "switch" in item.metadata]


def _eras() -> dict[str, Rules]:
    """From the newest back: each era is the one after it without what that brought."""
    v4_1 = Rules()
    v3_9 = replace(
        v4_1,
        elr=False,
        heartbeats="backoff",
        session_checks="at-the-end",
        transactions="verified",
        group_rebalance="cooperative",
    )
    v3_5 = replace(v3_9, hw_advance="isr", transactions="v1")
    v3_3 = replace(v3_5, isr_eligibility="unfenced", startup_port="open")
    v2_7 = replace(v3_3, isr_eligibility="any", membership="zk-session")
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
    # 2.0.1, which brought KAFKA-7128, 7164, 7414 and 7415: 2.0.0 has the truncation of 2.0 and all else as 0.11 has it.
    v2_0 = replace(v2_1, fetch_fencing="none")
    v0_11 = replace(
        v2_0,
        truncation="leader-epoch",
        follower_ahead="halt",
        isr_join="high-watermark",
        unknown_producer="out-of-order",
    )
    # Its rules are those of 0.10.0, before KIP-74; its APIs are those of 0.10.2.
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
    }
    return {f"kafka-{release}": replace(rules, release=release) for release, rules in eras.items()}


WITH_CONSUMER_GROUPS = ("3.9", "4.1")
"""Releases with KIP-848's APIs: a preview in the first, which is off."""

WITH_GROUP_SETTINGS = ("4.1",)
"""Releases whose groups have settings: ConfigResource.Type has GROUP since 4.0 (KAFKA-14510, KAFKA-14511)."""

WITH_BROKERS_PATTERNS = ("4.1",)
"""Releases whose brokers find topics by a member's pattern: ConsumerGroupHeartbeat 1, KafkaConsumer.subscribe with a
SubscriptionPattern, since 4.0 (KAFKA-15561)."""

WITH_ONE_GROUP_COORDINATOR = ("4.1",)
"""Releases in which KIP-848's coordinator has the classic groups, too (4.0: KAFKA-17593): GroupCoordinatorService."""

PROFILES: Mapping[str, Rules] = _eras()
"""Eras by name, oldest first."""


def spelled(value: Switch) -> str:
    """A value as scenarios spell it."""
    return str(value).lower() if isinstance(value, bool) else value


class Contradiction(NamedTuple):
    """Why no Kafka could ever have had these rules together, and what would."""

    why: str
    remedy: str


def contradiction(rules: Rules) -> Contradiction | None:
    """None: one could."""
    if rules.elr and rules.membership == "zk-session":
        why = "`elr: true` needs `membership: registration`: eligible leader replicas are kept in KRaft's metadata log"
        return Contradiction(why, "set `elr: false` too, or an older profile")
    if rules.group_rebalance == "consumer" and rules.release not in WITH_CONSUMER_GROUPS:
        why = f"`group-rebalance: consumer` needs an API that brokers of {rules.release} do not have"
        return Contradiction(why, f"take `profile: kafka-{WITH_CONSUMER_GROUPS[0]}` or a later one")
    return None

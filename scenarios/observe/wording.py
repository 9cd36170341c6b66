"""How screens and explanations spell moments and counts; lists and lengths of time: replica/wording.py."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scenarios.language.spec import Scenario


def seconds(at_us: int) -> str:
    """A moment of virtual time: `10.500 s`."""
    return f"{at_us / 1_000_000:.3f} s"


def count_of(number: int, noun: str) -> str:
    """`1 record`, `5 records`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def with_error(error: str | None, reason: str) -> str:
    """`ERROR: reason`; the reason alone where it ends with the error, as that of a refusal without a message does."""
    return f"{error}: {reason}" if error and not reason.endswith(error) else reason


def acked_of(names: Sequence[str], records: Mapping[str, Any]) -> list[str]:
    """Those of the names that a producer got an ack for. records: of a summary"""
    acked = set(records["acked"]) if names else ()
    return [name for name in names if name in acked]


def lost_words(names: Sequence[str], records: Mapping[str, Any]) -> str:
    """`5 acked records lost`; `1 record lost` where one was never acked: its application owes that output."""
    noun = "acked record" if len(acked_of(names, records)) == len(names) else "record"
    return f"{count_of(len(names), noun)} lost"


def sizes_of(scenario: Scenario) -> dict[str, Any]:
    """Of the cluster that a scenario describes, for `setting` in a summary."""
    return {
        "brokers": len(scenario.cluster.brokers),
        "topics": {
            topic.name: {
                "partitions": topic.partitions,
                "replication_factor": topic.replication_factor,
                "min.insync.replicas": scenario.topic_config(topic.name).min_insync_replicas,
            }
            for topic in scenario.topics.values()
        },
    }


def settings_of(summary: Mapping[str, Any]) -> list[str]:
    """What a run was built of: `3 brokers`, `t: 1 partition, RF 3, min.insync.replicas 2`, `p1 acks=all`; where there
    are transactions `p1 transactional.id=orders` and `c1r isolation.level=read_committed`, too.
    """
    setting = summary["setting"]
    found = [count_of(setting["brokers"], "broker")]
    for topic, values in setting["topics"].items():
        sizes = f"{topic}: {count_of(values['partitions'], 'partition')}, RF {values['replication_factor']}"
        found.append(f"{sizes}, min.insync.replicas {values['min.insync.replicas']}")
    found += [f"{producer} acks={acks}" for producer, acks in setting["acks"].items()]
    for key in ("transactional.id", "isolation.level"):
        found += [f"{client} {key}={value}" for client, value in setting.get(key, {}).items()]
    return found


def played_by(summary: Mapping[str, Any]) -> str:
    """Whose rules a run was played by: `kafka-3.9`, or `real Kafka 4.1.0`."""
    from replica.trace.events import REAL_KAFKA  # All kinds of events, which `list` does without.

    version = summary.get("real_kafka")
    return str(summary["profile"]) if version is None else f"{REAL_KAFKA} {version}"


def replay_command(scenario: str, variant: str | None, seed: int, settings: Sequence[str] = ()) -> str:
    """The command that plays the same run, byte for byte. scenario: as it was named, an id or a file"""
    words = ["highwater", "run", scenario, *(("--variant", variant) if variant else ()), "--seed", str(seed)]
    return shlex.join([*words, *(word for setting in settings for word in ("--set", setting))])

"""Texts for times and counts, for screens and explanations. Those for lists and durations are in replica/wording.py."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scenarios.language.spec import Scenario


def seconds(at_us: int) -> str:
    """Return a time in the run, such as `10.500 s`."""
    return f"{at_us / 1_000_000:.3f} s"


def count_of(number: int, noun: str) -> str:
    """Return a number with its noun, such as `1 record` or `5 records`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def acked_of(names: Sequence[str], records: Mapping[str, Any]) -> list[str]:
    """Return the `names` of records that were acknowledged, according to `records` of a run's summary."""
    acked = set(names).intersection(records["acked"]) if names else ()
    return [name for name in names if name in acked]


def lost_words(names: Sequence[str], records: Mapping[str, Any]) -> str:
    """Return `5 acked records lost`, or `5 records lost` if some of them were never acknowledged."""
    noun = "acked record" if len(acked_of(names, records)) == len(names) else "record"
    return f"{count_of(len(names), noun)} lost"


def sizes_of(scenario: Scenario) -> dict[str, Any]:
    """Return the numbers of brokers, partitions and replicas of a scenario, for `setting` in a summary."""
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
    """Return a run's settings as text, such as `3 brokers` or `p1 acks=all`.

    Topics are like `t: 1 partition, RF 3, min.insync.replicas 2`. With transactions there are also
    `p1 transactional.id=orders` and `c1r isolation.level=read_committed`.
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
    """Return which Kafka a run had, such as `kafka-3.9` (simulated) or `real Kafka 4.1.0`."""
    from replica.trace.events import REAL_KAFKA  # It imports all kinds of events, which `list` does not need.

    version = summary.get("real_kafka")
    return str(summary["profile"]) if version is None else f"{REAL_KAFKA} {version}"


def replay_command(scenario: str, variant: str | None, seed: int, settings: Sequence[str] = ()) -> str:
    """Return the shell command that repeats a run byte for byte.

    Args:
        scenario: id of a bundled scenario, or path of a scenario file.
        settings: values of the option `--set`.
    """
    words = ["highwater", "run", scenario, *(("--variant", variant) if variant else ()), "--seed", str(seed)]
    return shlex.join([*words, *(word for setting in settings for word in ("--set", setting))])

"""What of a scenario real Kafka cannot play or show is known before it starts."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from replica.rules import PROFILES
from replica.trace.events import CLASS_OF_EVENT
from scenarios.agree.phases import why_no_two_are_alike
from scenarios.language.expect import TimeTest
from scenarios.language.parse.catalogue import find_scenario
from scenarios.language.parse.loading import load_file, load_text
from scenarios.language.spec import Scenario
from scenarios.language.verbs.every import VERBS
from scenarios.run.kafka_limits import UNPLAYABLE_VERBS, UNSEEN_EVENTS, RealKafka, era_of, limits_of, played_on, wider
from scenarios.run.on_kafka import node_specs
from scenarios.run.runner import run_scenario

ROOT = Path(__file__).parents[2]
FILE = """schema: 1
id: limits
title: Limits
seed: 1
duration: 20s
{more}
cluster: {{brokers: {{b1: {{}}, b2: {{}}, b3: {{}}}}}}
topics: {{t: {{partitions: {{0: [b1, b2, b3]}}}}}}
workloads: {{p1: {{kind: producer, topic: t, config: {{acks: "1"}}}}}}
timeline:
  - {{at: 1s, produce: {{from: p1, count: 5}}}}
  - {{at: 2s, {step}}}
expect:
  events:
    - {{event: leader_elected, between: [3s, 4s]}}
    - {{event: follower_fetched}}
"""


def file_with(*, more: str = "profile: kafka-4.1", step: str = "kill: b1") -> Scenario:
    return load_text(FILE.format(more=more, step=step), "limits.yaml").scenario


def bundled(name: str, variant: str | None = None) -> Scenario:
    file = load_file(find_scenario(name))
    return file.scenario if variant is None else file.variants[variant]


@pytest.mark.parametrize(
    ("version", "era"),
    [
        ("4.1.0", "kafka-4.1"),
        ("4.4.0", "kafka-4.4"),
        ("4.2.1", "kafka-4.2"),
        ("4.0.1", "kafka-3.9"),
        ("3.9.1", "kafka-3.9"),
        ("2.8.2", "kafka-2.7"),
    ],
)
def test_a_release_has_the_rules_of_the_newest_era_behind_it(version: str, era: str) -> None:
    assert era_of(version) == era


def test_verbs_that_cannot_be_played_are_verbs() -> None:
    assert UNPLAYABLE_VERBS.keys() <= VERBS.keys()


def test_each_limit_has_its_line_and_its_reason() -> None:
    (limit,) = limits_of(file_with(step="bump_clock: {brokers: b1, by: 60s}"), "4.1.0")
    assert (limit.what, limit.line) == ("bump_clock", 12)
    assert "clock" in limit.why


@pytest.mark.parametrize(
    ("more", "version", "limits"),
    [
        ("profile: kafka-4.1", "4.1.0", []),
        ("profile: kafka-4.1", "4.4.0", []),
        ("profile: kafka-4.3", "4.2.1", []),
        ("profile: kafka-3.9", "4.1.0", []),
        ("profile: kafka-4.1", "3.9.1", ["the rule elr"]),
        ("profile: kafka-3.9", "3.9.1", []),
        ("profile: kafka-2.0", "4.1.0", ["profile: kafka-2.0"]),
        ("profile: kafka-3.9\nprotocol: {elr: true}", "4.1.0", []),
        ("profile: kafka-4.1\nprotocol: {list-offsets-guard: false}", "4.1.0", ["protocol.list-offsets-guard: false"]),
        ("profile: kafka-4.1", "2.8.2", ["profile: kafka-4.1", "the rule elr"]),
        ("profile: kafka-2.7", "2.8.2", []),
        ("profile: kafka-2.0", "2.8.2", ["profile: kafka-2.0"]),
    ],
)
def test_rules_are_those_of_the_release_but_for_eligible_leader_replicas(
    more: str, version: str, limits: list[str]
) -> None:
    assert [limit.what for limit in limits_of(file_with(more=more), version)] == limits


def test_the_old_rules_of_a_file_that_can_be_played_give_way_to_those_of_the_release() -> None:
    played, _ = played_on(bundled("acks1-leader-kill"), "4.1.0", 0)
    assert played.rules == PROFILES["kafka-4.1"].changed({"elr": False})


def test_what_cannot_be_seen_is_not_judged_and_times_get_a_slack() -> None:
    played, real = played_on(file_with(), "4.1.0", 500_000)
    assert [(test.event, test.between) for test in played.expect.events] == [
        ("leader_elected", TimeTest(2_500_000, 4_500_000))
    ]
    (left_out,) = real.not_judged
    assert (left_out.what, left_out.held, left_out.judged) == ("event follower_fetched", True, False)
    assert "not judged on Kafka" in left_out.why


def test_every_event_is_seen_on_kafka_or_known_as_unseen() -> None:
    """Otherwise an expectation about it would fail, or would hold because nobody looked."""
    places = ("cluster/kafka", "cluster/client", "cluster/network", "cluster/live", "scenarios/run")
    paths = [path for place in places for path in (ROOT / place).rglob("*.py") if path.name != "kafka_limits.py"]
    paths += [ROOT / "cluster/channel.py", ROOT / "controller/changes.py"]
    named = set(re.findall(r"\w+", "\n".join(path.read_text(encoding="utf-8") for path in paths)))
    classes = {kind for kind in CLASS_OF_EVENT.values() if kind.__name__ not in named}
    assert classes - set(UNSEEN_EVENTS) == set()


def test_broken_invariants_and_the_log_of_a_coordinator_are_not_judged() -> None:
    played, real = played_on(bundled("txn-late-marker"), "4.1.2", 0)
    assert played.expect.verdict == ()
    assert [one.what.split(" with ")[0] for one in real.not_judged] == [
        "verdict invariant",
        "event transaction_marker_written",
    ]
    _, real = played_on(bundled("group-assigned-a-moment-ago"), "4.3.1", 0)
    assert [one.what.split(" with ")[0] for one in real.not_judged] == ["event group_member_joined"]


def test_what_must_not_happen_has_the_slack_inside_its_bounds() -> None:
    played, _ = played_on(bundled("group-assigned-a-moment-ago"), "4.3.1", 2_000_000)
    assert [(test.never, test.between) for test in played.expect.events] == [
        (True, TimeTest(None, 13_000_000)),
        (False, TimeTest(13_500_000, 18_500_000)),
    ]


LATE = """schema: 1
id: late
title: A check that comes too early
seed: 1
duration: 3s
cluster: {brokers: {b1: {}, b2: {}}}
topics: {t: {partitions: {0: [b1, b2]}}}
workloads: {p1: {kind: producer, topic: t, config: {acks: all}}}
timeline:
  - {at: 1s, produce: {from: p1, count: 1}}
  - {at: 1.1s, check: {state: {b2: {t-0: {hw: 1}}}}}
"""


@pytest.mark.parametrize(
    ("slack_us", "finding"),
    [
        (0, "HW of t-0 on b2: expected 1, found 0"),
        (200_000, "HW of t-0 on b2: expected 1, found 0"),
        (1_000_000, "holds at 1.600 s"),
    ],
)
def test_a_check_waits_for_the_slack_and_no_longer(slack_us: int, finding: str) -> None:
    scenario = load_text(LATE, "late.yaml").scenario
    result = run_scenario(scenario, runs_dir=None, real=RealKafka("4.1.0", slack_us=slack_us))
    assert [each.why for each in result.expectations if each.what.startswith("check")] == [finding]


def test_a_check_that_still_waits_at_the_end_is_judged_then() -> None:
    text = LATE.replace("hw: 1", "hw: 2")
    result = run_scenario(
        load_text(text, "late.yaml").scenario, runs_dir=None, real=RealKafka("4.1.0", slack_us=60_000_000)
    )
    (check,) = [each for each in result.expectations if each.what.startswith("check")]
    assert (check.held, check.why) == (False, "HW of t-0 on b2: expected 2, found 1")


def test_an_open_window_stays_open() -> None:
    assert wider(TimeTest(None, 5), 2) == TimeTest(None, 7)
    assert wider(TimeTest(1, 5), 2) == TimeTest(0, 7)
    assert wider(None, 2) is None


def test_bytes_that_leave_a_file_later_than_their_header_are_no_jvms() -> None:
    held = file_with(step="hold: {from: b1, to: b2, api: Fetch, part: body}")
    assert [(limit.what, limit.line > 0) for limit in limits_of(held, "4.1.0")] == [("hold, part: body", True)]
    assert limits_of(file_with(step="hold: {from: b1, to: b2, api: Fetch, part: response}"), "4.1.0") == []


def test_a_compacted_topic_is_not_played_for_its_records_would_count_as_lost() -> None:
    (limit,) = limits_of(bundled("compaction-tombstone-gone"), "4.1.0", java_clients=False)
    assert limit.what == "topics.t.config.cleanup.policy: compact"


def test_transactions_and_transforms_are_for_highwaters_own_clients() -> None:
    for name in ("txn-decision-lost", "ctp-killed"):
        limits = limits_of(bundled(name), "4.1.0")
        assert limits and all("--clients highwater" in limit.why for limit in limits)
        assert limits_of(bundled(name), "4.1.0", java_clients=False) == []


def test_never_is_the_largest_number_that_a_key_of_kafka_holds(tmp_path: Path) -> None:
    scenario = file_with(more="profile: kafka-4.1").cluster
    config = {"log.flush.interval.messages": "never", "broker.session.timeout.ms": "3000"}
    specs = node_specs(replace(file_with(), cluster=replace(scenario, config=config)), tmp_path)
    assert specs["b1"].config == {**config, "log.flush.interval.messages": str(2**63 - 1)}


@pytest.mark.parametrize(
    ("name", "drawn"), [("luck-or-law", True), ("acks1-leader-kill", False), ("hw-propagation-lag", False)]
)
def test_runs_of_a_file_that_draws_its_delays_are_not_alike(name: str, drawn: bool) -> None:
    assert bool(why_no_two_are_alike(bundled(name))) == drawn


def test_a_power_cut_leaves_what_was_flushed_which_cannot_be_seen_where_a_log_is_flushed_by_itself() -> None:
    assert [limit.what for limit in limits_of(bundled("fsync-after-truncation"), "3.9.1")] == ["power_off"]
    assert limits_of(bundled("all-replicas-power-off"), "3.9.1") == []


@pytest.mark.parametrize(
    ("name", "version", "plays"),
    [
        ("elr-new-disk", "4.2.1", True),
        ("elr-new-disk", "4.3.1", False),
        ("acks1-leader-kill", "4.4.0", True),
    ],
)
def test_a_story_about_a_rule_is_not_played_where_the_rule_is_another(name: str, version: str, plays: bool) -> None:
    story = load_file(find_scenario(name)).scenario
    assert plays is not any(limit.is_about_era for limit in limits_of(story, version, java_clients=False))

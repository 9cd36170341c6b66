"""Levels of features that change while a cluster runs (`update_features`): what follows, and what is refused."""

from __future__ import annotations

import pytest

from controller.features import METADATA_VERSION, SAFE_DOWNGRADE, features, refusal
from replica.rules import KafkaRelease
from replica.trace import events as trace
from scenarios.language.parse.loading import load_text
from scenarios.run.runner import RunResult, run_scenario

ELR = "eligible.leader.replicas.version"
SCENARIO = """\
schema: 1
id: levels
title: An operator changes a level
duration: 20s
profile: {profile}
protocol: {{elr: {elr}}}
cluster:
  brokers: {{b1: {{}}, b2: {{}}, b3: {{}}}}
  config: {{min.insync.replicas: 2}}
topics:
  t: {{partitions: {{0: [b1, b2, b3]}}}}
  own: {{partitions: {{0: [b1, b2, b3]}}, config: {{min.insync.replicas: 2}}}}
workloads: {{}}
timeline:
{timeline}
"""


def run(*steps: str, profile: str = "kafka-4.1", elr: str = "false") -> RunResult:
    timeline = "\n".join(f"  - {{at: {at}s, {step}}}" for at, step in enumerate(steps, 5))
    text = SCENARIO.format(timeline=timeline, profile=profile, elr=elr)
    result = run_scenario(load_text(text, "test.yaml").scenario, runs_dir=None, keep_rows=True)
    assert not result.broken
    return result


def altered(result: RunResult) -> list[tuple[str | None, str | None, str, str | None]]:
    events = [row.event for row in result.rows if isinstance(row.event, trace.ConfigAltered)]
    return [(event.broker, event.topic, event.key, event.value) for event in events]


def test_with_elr_all_brokers_have_one_min_insync_replicas() -> None:
    """It is written before the level, and what brokers have of their own goes; a topic without one has another then."""
    minimum = "min.insync.replicas"
    found = altered(
        run(
            f"set_config: {{brokers: [b1, b3], config: {{{minimum}: 1}}}}",
            f"update_features: {{features: {{{ELR}: 1}}}}",
        )
    )
    assert found == [
        ("b1", None, minimum, "1"),
        (None, "t", minimum, "1"),
        ("b3", None, minimum, "1"),
        (None, None, minimum, "2"),
        ("b1", None, minimum, None),
        ("b3", None, minimum, None),
        (None, "t", minimum, "2"),
        (None, None, ELR, "1"),
    ]


def test_without_elr_a_broker_may_have_its_own_again() -> None:
    off = f"update_features: {{features: {{{ELR}: 0}}, upgrade_type: safe_downgrade}}"
    found = altered(run(off, "set_config: {brokers: b1, config: {min.insync.replicas: 1}}", elr="true"))
    assert found[:2] == [(None, None, ELR, "0"), ("b1", None, "min.insync.replicas", "1")]


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ("features: {kraft.version: 2}", "Local controller 1001 only supports versions 0-1"),
        ("features: {group.version: 2}", "Local controller 1001 only supports versions 0-1"),
        (
            "features: {group.version: 0}",
            "Can't downgrade the version of this feature without setting the",
        ),
        (
            "features: {metadata.version: 8}, upgrade_type: unsafe_downgrade",
            "Unsafe metadata downgrade is not",
        ),
        (f"features: {{{ELR}: 1, group.version: 3}}", "Local controller 1001 only supports versions 0-1"),
    ],
)
def test_what_kafka_refuses_fails_the_step_and_changes_nothing(wanted: str, told: str) -> None:
    result = run(f"update_features: {{{wanted}}}")
    (failed,) = [one for one in result.expectations if not one.held]
    assert "was refused: INVALID_UPDATE_VERSION Invalid" in failed.why and told in failed.why
    assert altered(result) == []


def test_kraft_version_is_raised_once_and_never_lowered() -> None:
    up, again = ("update_features: {features: {kraft.version: 1}}",) * 2
    down = "update_features: {features: {kraft.version: 0}, upgrade_type: safe_downgrade}"
    result = run(up, again, down)
    (failed,) = [one for one in result.expectations if not one.held]
    assert "Can't downgrade the version of this feature." in failed.why
    assert [row.event.sentence() for row in result.rows if isinstance(row.event, trace.VotersChanged)] == [
        "the only voter of the metadata quorum is now c1: c1 committed this set"
    ]


def test_an_older_release_knows_fewer_features() -> None:
    result = run(f"update_features: {{features: {{{ELR}: 1}}}}", profile="kafka-3.9")
    assert ["does not support this feature" in one.why for one in result.expectations if not one.held] == [True]


@pytest.mark.parametrize(
    ("release", "level", "is_refused"),
    [
        (KafkaRelease(4, 2), 28, False),
        (KafkaRelease(4, 2), 22, True),
        (KafkaRelease(4, 3), 29, True),
        (KafkaRelease(4, 4), 32, True),
    ],
    ids=str,
)
def test_no_level_is_gone_back_to_below_one_that_changed_the_metadata(
    release: KafkaRelease, level: int, is_refused: bool
) -> None:
    """MetadataVersion.checkIfMetadataChanged: 4.3-IV0, 4.4-IV1 and 4.4-IV2 changed it."""
    known = features(release, elr=True, transactions="v2", groups="consumer")
    feature = next(one for one in known if one.name == METADATA_VERSION)
    assert bool(refusal(1001, feature, METADATA_VERSION, level, SAFE_DOWNGRADE)) is is_refused

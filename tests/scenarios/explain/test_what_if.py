"""`explain --what-if`: every answer is a whole run with one thing changed, and agrees with `run --set`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from scenarios.explain.kept_outcomes import KEPT_NAME, RECORDS_MAX, KeptOutcome, keep_outcomes, kept_outcomes
from scenarios.explain.what_if import RecordFate, SettingsChange, changes_for, outcome_of, play_changes
from scenarios.language.parse.catalogue import bundled
from scenarios.language.parse.loading import load_text
from scenarios.language.write import lock
from scenarios.observe.availability import time_of_any
from scenarios.run.runner import run_scenario
from tests.catalogue import bundled_file
from tests.soak import one_row_in


@cache
def outcomes_of(
    scenario_id: str, record: str, producer: str = "p1", variant: str | None = None
) -> tuple[RecordFate, ...]:
    """Every change is a run: they are played once in a process."""
    file = bundled_file(scenario_id)
    scenario = file.scenario if variant is None else file.variants[variant]
    changes = changes_for(scenario, producer)
    found = [outcome for outcomes in play_changes(lock.dump(scenario), [record], changes, 1) for outcome in outcomes]
    assert [outcome.record for outcome in found] == [record] * len(found)
    return tuple(found)


def saving(outcomes: Sequence[RecordFate]) -> list[str]:
    return [outcome.change.what for outcome in outcomes if outcome.saved]


@pytest.mark.soak
def test_only_waiting_for_the_others_saves_what_one_leader_acked() -> None:
    outcomes = outcomes_of("acks1-leader-kill", "r12")
    fates = {outcome.change.what: outcome.fate for outcome in outcomes}
    assert fates.pop("acks=all") == "kept"
    assert "replication factor 4" in fates and "flush.messages=1 (fsync of every batch)" in fates
    assert set(fates.values()) == {"lost"}


def test_the_spare_broker_takes_a_name_that_no_client_has() -> None:
    text = bundled()["acks1-leader-kill"].read_text(encoding="utf-8").replace("c1r: {kind", "b4: {kind")
    settings = {change.what: change.settings for change in changes_for(load_text(text, "file").scenario, "p1")}
    assert "cluster.brokers.b5={}" in settings["replication factor 4"]


@pytest.mark.soak
def test_a_refused_record_counts_as_saved_because_nothing_was_promised() -> None:
    outcomes = {outcome.change.what: outcome for outcome in outcomes_of("min-isr-1-trap", "r12")}
    refused = outcomes["min.insync.replicas=2"]
    assert (refused.fate, refused.saved, refused.also_lost) == ("refused", True, ())
    assert "the producer got an error" in refused.sentence


@pytest.mark.soak
def test_a_clean_election_saves_what_an_unclean_one_lost() -> None:
    outcomes = outcomes_of("unclean-election", "r1")
    assert "unclean.leader.election.enable=false" in saving(outcomes)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("scenario_id", "record", "changes"),
    one_row_in(
        3, [("acks1-leader-kill", "r12", 2), ("acks1-leader-kill", "r12", 100), ("all-replicas-power-off", "r15", 100)]
    ),
)
def test_what_if_and_run_with_the_same_settings_agree(scenario_id: str, record: str, changes: int) -> None:
    text = lock.dump(bundled_file(scenario_id).scenario)
    for outcome in outcomes_of(scenario_id, record)[:changes]:
        scenario = load_text(text, "lock", outcome.change.settings).scenario
        lost = run_scenario(scenario, runs_dir=None).summary["records"]["lost"]
        assert (record in lost) == (outcome.fate == "lost"), outcome.change


@pytest.mark.parametrize(
    ("profile", "acks", "expected"),
    [
        ("kafka-3.9", "all", ["elr: true", "elr: true, min.insync.replicas=2"]),
        ("kafka-3.9", "1", ["elr: true", "elr: true, acks=all and min.insync.replicas=2"]),
        ("kafka-4.4", "all", []),
        ("kafka-2.0", "all", []),
    ],
)
def test_eligible_leaders_are_tried_with_the_min_isr_that_lets_them_act(
    profile: str, acks: str, expected: list[str]
) -> None:
    text = bundled()["min-isr-1-trap"].read_text(encoding="utf-8")
    scenario = load_text(text, "file", (f"profile={profile}", f"workloads.p1.config.acks={acks}"), "base").scenario
    changes = changes_for(scenario, "p1")
    assert [change.what for change in changes if change.what.startswith("elr:")] == expected
    for change in changes:
        if change.what in expected[1:]:
            changed = load_text(lock.dump(scenario), "lock", change.settings).scenario
            assert changed.rules.elr and changed.topic_config("t").min_insync_replicas == 2


def test_time_without_writes_is_never_longer_than_the_time_in_which_it_was() -> None:
    unavailable = {"t-0": [[1_000_000, 5_000_000]], "t-1": [[2_000_000, 4_000_000], [6_000_000, 7_000_000]], "t-2": []}
    summary = {"records": {"lost": [], "acked": ["r1"]}, "unavailable": unavailable}
    outcome = outcome_of(summary, "r1", SettingsChange("", ()))
    assert outcome.no_writes_us == 5_000_000
    assert outcome.sentence == "acked and kept; no writes to one or more of 2 partitions for 5.0 s"
    assert time_of_any({"t-0": []}) == 0


def fate_of(record: str, what: str, fate: str) -> RecordFate:
    return RecordFate(SettingsChange(what, ()), record, fate, (), 0)


def test_outcomes_are_kept_for_the_page_of_the_same_trace_only(tmp_path: Path) -> None:
    assert kept_outcomes(tmp_path, "one") == {}
    keep_outcomes(tmp_path, "one", {"r1": [fate_of("r1", "acks=all", "kept"), fate_of("r1", "replicas", "lost")]})
    keep_outcomes(tmp_path, "one", {"r2": [fate_of("r2", "acks=all", "refused")]})
    found = kept_outcomes(tmp_path, "one")
    assert list(found) == ["r1", "r2"]
    assert found["r1"] == (
        KeptOutcome("acks=all", True, "acked and kept"),
        KeptOutcome("replicas", False, "acked, but lost"),
    )
    assert kept_outcomes(tmp_path, "two") == {}
    keep_outcomes(tmp_path, "two", {"r3": [fate_of("r3", "acks=all", "kept")]})
    assert list(kept_outcomes(tmp_path, "two")) == ["r3"]


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "[]",
        '{"trace_sha256": "one", "records": [1]}',
        '{"trace_sha256": "one", "records": {"r1": [["acks=all", 1, "kept"]]}}',
        '{"trace_sha256": "one", "records": {"r1": [["a", true, "b"], ["a", true]]}}',
        '{"trace_sha256": "one", "records": {"r1": [["a", true, "b"]]}}' + " " * (1 << 20),
    ],
    ids=["nested", "list", "no-records", "number", "short", "large"],
)
def test_what_no_explain_has_written_is_ignored(text: str, tmp_path: Path) -> None:
    (tmp_path / KEPT_NAME).write_text(text, encoding="utf-8")
    assert kept_outcomes(tmp_path, "one") == {}


def test_no_more_is_kept_than_is_read(tmp_path: Path) -> None:
    many = {f"r{number}": [fate_of("r", "acks=all", "kept")] for number in range(RECORDS_MAX + 5)}
    keep_outcomes(tmp_path, "one", many)
    assert list(kept_outcomes(tmp_path, "one")) == list(many)[5:]

"""`explain --what-if`: every answer is a whole run with one thing changed, and agrees with `run --set`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from scenarios.explain.kept_outcomes import KEPT_NAME, RECORDS_MAX, KeptOutcome, keep_outcomes, kept_outcomes
from scenarios.explain.what_if import RecordFate, SettingsChange, changes_for, play_changes
from scenarios.language.parse.catalogue import bundled
from scenarios.language.parse.loading import load_text
from scenarios.language.write import lock
from scenarios.run.runner import run_scenario
from tests.catalogue import bundled_file


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


def test_a_refused_record_counts_as_saved_because_nothing_was_promised() -> None:
    outcomes = {outcome.change.what: outcome for outcome in outcomes_of("min-isr-1-trap", "r12")}
    refused = outcomes["min.insync.replicas=2"]
    assert (refused.fate, refused.saved, refused.also_lost) == ("refused", True, ())
    assert "the producer got an error" in refused.sentence


def test_a_clean_election_saves_what_an_unclean_one_lost() -> None:
    outcomes = outcomes_of("unclean-election", "r1")
    assert "unclean.leader.election.enable=false" in saving(outcomes)


@pytest.mark.parametrize(
    ("scenario_id", "record"),
    [("acks1-leader-kill", "r12"), pytest.param("all-replicas-power-off", "r15", marks=pytest.mark.soak)],
)
def test_what_if_and_run_with_the_same_settings_agree(scenario_id: str, record: str) -> None:
    text = lock.dump(bundled_file(scenario_id).scenario)
    for outcome in outcomes_of(scenario_id, record):
        scenario = load_text(text, "lock", outcome.change.settings).scenario
        lost = run_scenario(scenario, runs_dir=None).summary["records"]["lost"]
        assert (record in lost) == (outcome.fate == "lost"), outcome.change


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
        KeptOutcome("replicas", False, "acked and lost all the same"),
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

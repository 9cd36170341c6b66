"""Which outputs an application owes when a run ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from replica.trace.events import OutputPromised
from scenarios.explain.explanation import explanation_text
from scenarios.explain.record import explain_record
from scenarios.language.parse.catalogue import bundled
from scenarios.language.parse.loading import load_file
from scenarios.run.runner import run_scenario
from scenarios.terminal.style import Style
from tests.soak import one_in


def promised(tmp_path: Path, duration: str, offsets: str) -> tuple[list[str], list[str]]:
    """Of ctp-killed without its faults, that ends at this time: the outputs that are owed, and the verdict."""
    text = bundled()["ctp-killed"].read_text()
    text = text[: text.index("expect:")].replace("duration: 60s", f"duration: {duration}")
    text = text.replace("offsets: in-transaction", f"offsets: {offsets}")
    lines = [line for line in text.splitlines() if "kill: t1" not in line and "start: t1" not in line]
    path = tmp_path / "ctp-killed.yaml"
    path.write_text("\n".join([*lines, "expect: {verdict: ok}", ""]))
    result = run_scenario(load_file(path).scenario, runs_dir=None, keep_rows=True)
    found = [row.event.record for row in result.rows if isinstance(row.event, OutputPromised)]
    return found, list(result.verdict.kinds)


@pytest.mark.parametrize("offsets", one_in(3, ["in-transaction", "after", "before"]))
def test_of_all_inputs_that_are_done(tmp_path, offsets):
    found, verdict = promised(tmp_path, "30s", offsets)
    assert found == [f"tr{number}" for number in range(10)]
    assert verdict == []


def test_a_round_that_is_under_way_is_not_done_though_its_offsets_are_committed(tmp_path):
    """At 20.010 s the group has committed that r5 is done, and at 20.015 s tr5 is in no log yet."""
    found, verdict = promised(tmp_path, "20.0125s", "before")
    assert found == [f"tr{number}" for number in range(5)]
    assert verdict == []


def test_an_output_that_was_never_sent_is_lost_and_its_story_told(tmp_path):
    """t1 dies between the commit of its offsets and its answer; search found it in era 0.11."""
    text = bundled()["ctp-killed"].read_text().replace("offsets: in-transaction", "offsets: before")
    lines = [line for line in text[: text.index("expect:")].splitlines() if "start: t1" not in line]
    lines = ["  - {at: 20.0075s, kill: t1}" if "kill: t1" in line else line for line in lines]
    path = tmp_path / "ctp-killed.yaml"
    path.write_text("\n".join([*lines, "expect: {verdict: lost}", ""]))
    result = run_scenario(load_file(path).scenario, runs_dir=tmp_path / "runs", keep_rows=True)
    (anomaly,) = result.verdict.anomalies
    assert anomaly.partition is None and "1 output to " in anomaly.sentence and anomaly.records == ("tr5",)
    assert result.summary["dashboard"]["lost_us"] is None
    story = explain_record(result.rows, "tr5")
    assert (story.fate, story.acks, story.as_json()["partition"]) == ("lost", None, None)
    killed, owes = [moment.sentence for moment in story.moments]
    assert killed == "t1 was killed (kill -9)." and owes.startswith("t1 must have sent tr5: it read r5 at offset 5 of ")
    assert "never sent" in explanation_text(story, Style())

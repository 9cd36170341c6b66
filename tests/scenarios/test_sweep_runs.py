"""The grid of a sweep, and one run of it as a function of scenario, settings and seed."""

from __future__ import annotations

import fcntl
import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from scenarios.cli.main import cli
from scenarios.language.parse import catalogue
from scenarios.search.sweep import (
    Axis,
    SweepScenario,
    VaryUnreadable,
    grid,
    has_chance,
    invalid_values,
    labels,
    without_difference,
)

ACKS = "workloads.p1.config.acks"
MIN_ISR = "topics.t.config.min.insync.replicas"


def sweep_of(name: str, *overrides: str, variant: str | None = None) -> SweepScenario:
    path = catalogue.find_scenario(name)
    return SweepScenario(name, str(path), path.read_text(encoding="utf-8"), variant, overrides)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a.b=0,1, all", ("0", "1", "all")),
        ("a=5s", ("5s",)),
        ("a=[b1, b2],[b1]", ("[b1, b2]", "[b1]")),
        ("a='x, y',z", ("'x, y'", "z")),
        ("a={k: [1, 2]}", ("{k: [1, 2]}",)),
    ],
)
def test_values_are_separated_by_commas_outside_brackets_and_quotes(text: str, values: tuple[str, ...]) -> None:
    assert Axis.parse(text) == Axis(text.partition("=")[0], values)


NO_LISTS = ("a", "=1", "a=", "a=1,", "a=,1", "a=1,,2", "a=1,1", "a=1]", "a=1] [2", "a={", "a=&x 1,*x")


@pytest.mark.parametrize("text", NO_LISTS)
def test_what_is_no_list_of_values_is_refused(text: str) -> None:
    with pytest.raises(VaryUnreadable):
        Axis.parse(text)


def test_the_grid_is_every_combination_and_its_labels_are_short() -> None:
    axes = [Axis.parse(f"{ACKS}=0,all"), Axis.parse(f"{MIN_ISR}=1,2")]
    assert grid(axes) == [
        (f"{ACKS}=0", f"{MIN_ISR}=1"),
        (f"{ACKS}=0", f"{MIN_ISR}=2"),
        (f"{ACKS}=all", f"{MIN_ISR}=1"),
        (f"{ACKS}=all", f"{MIN_ISR}=2"),
    ]
    assert grid([]) == [()]
    assert labels(axes) == ["acks", "min.insync.replicas"]
    assert labels([axes[0], Axis("workloads.p2.config.acks", ("1",))]) == [ACKS, "workloads.p2.config.acks"]
    with pytest.raises(VaryUnreadable, match="twice"):
        grid([axes[0], axes[0]])


def test_a_value_that_fits_nowhere_is_an_error_one_that_fits_somewhere_a_row() -> None:
    sweep = sweep_of("luck-or-law")

    def tried(*vary: str) -> tuple[str, int]:
        axes = [Axis.parse(text) for text in vary]
        invalid, refused = invalid_values(sweep, axes, grid(axes))
        return "" if invalid is None else invalid.diagnostics[0].title, refused

    assert tried(f"{ACKS}=0,1,all") == ("", 0)
    assert "`7` is not one of" in tried(f"{ACKS}=0,7", f"{MIN_ISR}=1,2")[0]
    assert "there is no key `p9` here" in tried("workloads.p9.config.acks=0")[0]
    # acks=0 does not go with idempotence, each of them goes with something.
    assert tried(f"{ACKS}=0,all", "workloads.p1.config.enable.idempotence=true,false") == ("", 1)


def test_a_run_is_what_the_replay_command_plays(tmp_path: Path) -> None:
    sweep = sweep_of("luck-or-law", "duration=25s", variant="unlucky")
    settings = (f"{MIN_ISR}=1",)
    row = sweep.play(settings, 2)
    words = shlex.split(sweep.replay_command(settings, 2))
    assert words[:2] == ["highwater", "run"]
    done = CliRunner().invoke(cli, [*words[1:], "--out", str(tmp_path), "--format", "json"], standalone_mode=False)
    document = json.loads(done.stdout)
    records = {fate: names["count"] for fate, names in document["records"].items() if fate != "sent"}
    assert {name: row[name] for name in records} == records
    for name in ("verdict", "held", "our_bug", "retries", "events", "trace_sha256"):
        assert row[name] == document[name]
    assert row["status"] == "finished" and row["lost"] > 0
    assert sweep.play(settings, 3)["trace_sha256"] != row["trace_sha256"], "the seed must matter"


@pytest.mark.parametrize(
    ("name", "setting", "random"),
    [
        ("acks1-leader-kill", "seed=1", False),
        ("min-isr-1-trap", "seed=2", False),
        ("luck-or-law", "seed=1", True),
        ("acks1-leader-kill", "cluster.phases=random", True),
        ("acks1-leader-kill", "network.latency={uniform: [1ms, 2ms]}", True),
        ("acks1-leader-kill", "workloads.p1={kind: producer, topic: t, poisson: 2/s}", True),
        ("acks1-leader-kill", "topics.t.partitions={0: [b1, b2, b3], 1: [b2, b3, b1]}", True),
        ("acks1-leader-kill", "timeline.6={at: 1s, loss: {between: [b1, b2], rate: 1%}}", True),
    ],
)
def test_a_file_is_known_to_leave_something_to_chance(name: str, setting: str, random: bool) -> None:
    assert has_chance(sweep_of(name).resolved((setting,))) == random


def _row(*settings: str, lost: int = 0, ack: int = 1, finished: int = 2) -> dict[str, Any]:
    figures = {"finished": finished, "lost_records": lost, "ack_p50_us": ack, "losing_replay": f"run {settings}"}
    return {"setting": 0, "settings": list(settings), **figures}


_LOSING = [_row("a=2", "b=1", lost=1), _row("a=2", "b=2", lost=1)]


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ([_row("a=1", "b=1"), _row("a=1", "b=2"), *_LOSING], {"b": "any"}),
        ([_row("a=1", "b=1"), _row("a=1", "b=2", ack=2), *_LOSING], {"b": "acks"}),
        ([_row("a=1", "b=1"), _row("a=1", "b=2"), _row("a=2", "b=1"), _row("a=2", "b=2", lost=1)], {}),
        ([_row("a=1", "b=1", finished=0), _row("a=1", "b=2", finished=0)] * 2, {}),
    ],
)
def test_a_setting_that_made_no_difference_is_named(rows: list[dict[str, Any]], found: dict[str, str]) -> None:
    """Each value is compared with the others beside the same values of the other settings."""
    assert without_difference([Axis("a", ("1", "2")), Axis("b", ("1", "2"))], rows) == found


def test_a_setting_with_one_value_is_not_compared() -> None:
    assert without_difference([Axis("a", ("1",))], [_row("a=1")]) == {}


@pytest.mark.parametrize(
    ("words", "noted"),
    [
        (["acks1-leader-kill", "--seeds", "1..3"], True),
        (["acks1-leader-kill", "--seeds", "4"], False),
        (["acks1-leader-kill", "--seeds", "1..3", "--vary", "cluster.phases=random"], False),
        (["luck-or-law", "--seeds", "1..3"], False),
    ],
)
def test_a_sweep_says_before_it_begins_that_nothing_is_random(words: list[str], noted: bool, tmp_path: Path) -> None:
    """It ends before it plays, since another process holds the lock of its folder."""
    with (tmp_path / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        result = CliRunner().invoke(cli, ["sweep", *words, "--out", str(tmp_path)])
    assert result.exit_code != 0
    assert (
        "note: only the pauses before retries are random here, so all 3 seeds may have the same result" in result.stderr
    ) == noted


def test_what_is_wrong_with_the_settings_is_in_the_row() -> None:
    row = sweep_of("luck-or-law").play((f"{MIN_ISR}=none",), 1)
    assert row["status"] == "invalid" and "`none` is not a number" in row["error"]


def test_latencies_are_counted_per_ack_and_acks_0_has_none() -> None:
    sweep = sweep_of("luck-or-law")
    row = sweep.play((f"{ACKS}=1",), 3)
    assert sum(row["ack_latency_acks"]) == row["acked"] > 0
    assert row["ack_latency_us"] == sorted(set(row["ack_latency_us"]))
    assert all(len(str(us).rstrip("0")) <= 3 for us in row["ack_latency_us"])
    row = sweep.play((f"{ACKS}=0",), 3)
    assert row["ack_latency_us"] == [] and row["acked"] == 0

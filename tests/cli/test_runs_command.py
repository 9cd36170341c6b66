"""`highwater runs` and `highwater diff`, as a shell sees them."""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from command import MINI, Highwater


def test_kept_runs_are_listed_compared_and_removed(highwater: Highwater) -> None:
    assert highwater("runs").out == "runs/ has no runs. Make one: highwater run SCENARIO\n"
    Path("mini.yaml").write_text(MINI)
    for words in ((), ("--variant", "silent"), ("--set", "workloads.p1.config.acks=0")):
        highwater("run", "mini.yaml", *words)
    listed = highwater("runs", "--format", "json").document
    assert [(row["run"][:4], row["scenario"], row["verdict"]) for row in listed] == [
        ("0001", "mini", "lost"),
        ("0002", "mini/silent", "ok"),
        ("0003", "mini", "ok"),
    ]
    assert [line.split()[0:5:4] for line in highwater("runs").out.splitlines()[1:]] == [
        ["0001", "mini"],
        ["0002", "mini/silent"],
        ["0003", "mini"],
    ]
    assert highwater("diff", "1", "1").out.endswith("Both runs have the same events at the same times.\n")
    assert highwater("diff", "1", "1", "--format", "json").document["first"] is None
    assert all("\n\n\n" not in highwater("diff", "1", other).out for other in "23")
    assert max(map(len, highwater("diff", "1", "3").out.splitlines())) <= 80
    parted = highwater("diff", "1", "3", "--format", "json").document
    assert parted["settings"] == [["p1 acks=1", "p1 acks=0"]]
    assert parted["verdicts"] == [["lost"], []]
    left, right = parted["not_as_expected"]
    assert left == {} and right["verdict"].startswith("expected ")
    assert parted["figures"]["acked"] == [2, "not asked"] and parted["figures"]["acked, then lost"] == [2, None]
    assert "sent" not in parted["figures"]
    assert [one["what"] for one in parted["differences"]][:2] == ["acked", "lost"]
    # r0 is sent alike but for the setting; then only one of them waits for an ack.
    assert parted["first"]["sentences"] == [
        "p1 sent r1 to b1 with acks=1",
        "p1 wrote r0 to its socket to b1; with acks=0 it waits for no answer",
    ]
    assert highwater("runs", "prune", "--keep", "1").out == "  2 runs removed, 1 kept\n"
    assert [path.name for path in Path("runs").iterdir() if path.is_dir()] == ["0003-mini"]
    assert highwater("diff", "last", "last~1").code == 2


@pytest.mark.soak
def test_of_two_runs_the_outcome_comes_first_then_times_and_by_the_clock_no_event(highwater: Highwater) -> None:
    Path("mini.yaml").write_text(MINI)
    silent = ("--set", "workloads.p1.config.acks=0")
    for words in ((), silent, ("--live",), ("--live", *silent)):
        highwater("run", "mini.yaml", *words)
    summary = Path("runs/0003-mini/summary.json")
    summary.write_text(json.dumps({**json.loads(summary.read_text()), "retries": 7}))
    alike, unlike = highwater("diff", "1", "3").out, highwater("diff", "1", "4").out
    assert "Times and retries that differ:" in alike and alike.index("Times and") < alike.index("  retries")
    assert "Every record had the same outcome, with the same leaders, ISRs and final logs." in alike
    assert "0001-mini  simulated" in alike and "0003-mini  live, in real time" in alike
    order = [unlike.index(part) for part in ("What ended differently", "acked, then lost", "missing", "Times and")]
    assert order == sorted(order)
    assert "records, missing since" in unlike
    assert "  expected: verdict\n    0004-mini  does not hold: " in unlike
    assert "are the same; then:" in highwater("diff", "1", "2").out
    for screen in (alike, unlike):
        assert "are the same; then:" not in screen and max(map(len, screen.splitlines())) <= 80
    assert "first" not in highwater("diff", "1", "3", "--format", "json").document


def test_a_list_of_runs_says_when_each_was_made(highwater: Highwater, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("mini.yaml").write_text(MINI)
    highwater("run", "mini.yaml")
    highwater("run", "mini.yaml")
    this_year = datetime(datetime.now(UTC).year, 3, 4, 5, 6, tzinfo=UTC)
    os.utime("runs/0001-mini/summary.json", (1_700_000_000,) * 2)
    os.utime("runs/0002-mini/summary.json", (this_year.timestamp(),) * 2)
    monkeypatch.setenv("TZ", "UTC-2")
    time.tzset()
    try:
        head, *rows = highwater("runs").out.splitlines()
        place = head.index("MADE")
        assert [row[place:].split("  ")[0] for row in rows] == ["15 Nov 2023", "04 Mar 07:06"]
        made = [row["made"] for row in highwater("runs", "--format", "json").document]
        assert made == ["2023-11-15T00:13:20+02:00", f"{this_year.year}-03-04T07:06:00+02:00"]
    finally:
        monkeypatch.undo()
        time.tzset()


def test_what_is_left_of_a_run_without_a_verdict_is_named(
    highwater: Highwater, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("mini.yaml").write_text(MINI)
    highwater("run", "mini.yaml")
    highwater("run", "mini.yaml")
    left = Path("runs/0002-mini-unjudged")
    Path("runs/0002-mini").rename(left)
    (left / "summary.json").unlink()
    said = (
        "error: runs/0002-mini-unjudged has no verdict: the run was abandoned, or judging it failed."
        " To judge it by its trace: highwater judge runs/0002-mini-unjudged."
        " To read the logs of its brokers: highwater read runs/0002-mini-unjudged/logs/*"
    )
    for name in ("2", "0002", "mini-unjudged", "runs/2", str(left), f"{left}/"):
        for words in (("explain",), ("view",), ("report",), ("report", "--sql", "SELECT 1"), ("export", "--to", "csv")):
            done = highwater(words[0], name, *words[1:])
            assert (done.code, done.out, done.error_lines) == (2, "", [said]), (name, words)
    assert highwater("read", *map(str, (left / "logs").iterdir())).code == 0
    rows = highwater("runs", "--format", "json").document
    assert [(row["run"], row["scenario"], row["verdict"], row["events"]) for row in rows][1:] == [
        ("0002-mini-unjudged", "mini", "unjudged", None)
    ]
    assert [line.split()[5:7] for line in highwater("runs").out.splitlines()[1:]] == [["1", "lost"], ["–", "unjudged"]]
    monkeypatch.setenv("TERM", "dumb")
    assert highwater("runs").out.splitlines()[2].split()[5:8] == ["-", "unjudged", "-"]
    assert highwater("explain", "mini", "r0").code == 0
    assert highwater("runs", "prune", "--keep", "1").out == "  1 run removed, 1 kept\n"
    assert left.is_dir()


def test_names_of_runs_hold_in_a_folder_of_ones_own(highwater: Highwater) -> None:
    Path("mini.yaml").write_text(MINI)
    for words in ((), ("--set", "workloads.p1.config.acks=0")):
        highwater("run", "mini.yaml", "--out", "mine/of-today", *words)
    names = ("last", "last~1", "2", "0001", "mini")
    found = [highwater("explain", f"mine/of-today/{name}", "r0", "--format", "json") for name in names]
    newer, older = (highwater("explain", f"mine/of-today/{run}", "r0", "--format", "json").document
                    for run in ("0002-mini", "0001-mini"))  # fmt: skip
    assert newer != older
    assert [answer.document for answer in found] == [newer, older, newer, older, newer]
    for name, why in (("last~2", "mine/of-today/ has only 2 runs"), ("no-such", "in mine/of-today/")):
        missing = highwater("explain", f"mine/of-today/{name}", "r0")
        assert missing.code == 2 and why in missing.err


def test_a_summary_that_is_none_is_one_error(highwater: Highwater) -> None:
    Path("mini.yaml").write_text(MINI)
    highwater("run", "mini.yaml")
    place = Path("runs/0001-mini/summary.json")
    summary = json.loads(place.read_text())
    del summary["setting"]
    place.write_text(json.dumps(summary))
    for words in (("diff", "1", "1"), ("view", "1")):
        found = highwater(*words)
        assert found.code == 2 and len(found.error_lines) == 1 and "is not the summary of a run" in found.err
    place.write_text("{}")
    assert highwater("runs").err.startswith("warning: runs/0001-mini/summary.json")


def test_a_file_in_the_place_of_the_runs_is_an_error(highwater: Highwater) -> None:
    Path("file").write_text("")
    for words in (("runs", "--out", "file"), ("runs", "prune", "--keep", "1", "--out", "file")):
        done = highwater(*words)
        assert (done.code, done.error_lines) == (2, ["error: file is not a folder, so it has no runs"])


def test_a_run_without_a_verdict_is_judged_by_its_trace(highwater: Highwater) -> None:
    """What a killed process leaves has a trace, and neither a summary nor a name that other commands open."""
    Path("mini.yaml").write_text(MINI)
    judged = highwater("run", "mini.yaml", "--format", "json").document
    kept, left = Path("runs/0001-mini"), Path("runs/0001-mini-unjudged")
    (kept / "summary.json").unlink()
    kept.rename(left)
    assert [row["verdict"] for row in highwater("runs", "--format", "json").document] == ["unjudged"]
    assert highwater("explain", left.name, "r0").code == 2
    document = highwater("judge", "--format", "json").document
    assert (document["verdict"], document["records"]) == (judged["verdict"], judged["records"])
    assert document["logs"] == judged["logs"] and kept.is_dir() and not left.exists()
    assert highwater("explain", "1", "r1").code == 0


def test_a_broken_trace_is_not_judged_and_nothing_is_lost(highwater: Highwater) -> None:
    Path("mini.yaml").write_text(MINI)
    highwater("run", "mini.yaml")
    part = next(Path("runs/0001-mini/trace/produce").iterdir())
    part.write_bytes(part.read_bytes()[:-20])
    before = sorted(Path("runs").rglob("*"))
    done = highwater("judge", "1")
    assert done.code == 2 and done.out == "" and "the run cannot be judged: " in done.err
    assert sorted(Path("runs").rglob("*")) == before

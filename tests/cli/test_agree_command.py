"""`highwater agree`, as a shell sees it; the other world is a simulated one, too."""

from __future__ import annotations

import errno
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from command import MINI, Highwater

from cluster.network.world import Fabric
from replica.trace.events import TraceLog
from scenarios.cli.agree import command
from scenarios.cli.agree.command import OtherWorld
from scenarios.language.parse import catalogue
from scenarios.language.spec import Scenario
from scenarios.language.steps import Delay
from scenarios.run.worlds import NewWorld, simulated

Other = Callable[[NewWorld], None]


@pytest.fixture
def other(monkeypatch: pytest.MonkeyPatch) -> Other:
    """Puts a world in the place of the live one."""

    def put(new: NewWorld) -> None:
        def why_not(scenario: Scenario) -> str:
            return "nothing happens in it" if scenario.variant == "silent" else ""

        monkeypatch.setattr(
            command, "_live", lambda: OtherWorld(name="live", options=("--live",), new=new, why_not=why_not)
        )

    Path("mini.yaml").write_text(MINI)
    return put


@pytest.mark.soak
def test_the_sheet_as_text_json_table_and_page(highwater: Highwater, other: Other) -> None:
    other(simulated)
    done = highwater("agree", "mini.yaml", "--live", "--times", "2")
    assert done.code == 0
    assert [line.split()[:2] for line in done.out.splitlines()[:3]] == [
        ["same", "mini"],
        ["same", "mini:wrong"],
        ["not", "played"],
    ]
    assert "2 same, 0 noise, 0 differ; 1 not played" in " ".join(done.out.split())
    assert max(map(len, done.out.splitlines())) <= 80
    document = highwater("agree", "mini.yaml", "--live", "--times", "2", "--format", "json").document
    assert document["counts"] == {"same": 2, "noise": 0, "differs": 0, "not played": 1}
    assert [row["why_not"] for row in document["rows"]] == ["", "", "nothing happens in it"]
    markdown = highwater("agree", "mini.yaml", "--live", "--times", "2", "--format", "markdown").out
    _, _, same, _, *table = markdown.splitlines()
    assert same == "The same: `mini`, `mini:wrong`."
    assert table[2:] == ["| `mini:silent` | not played | 0 | nothing happens in it | | |"]
    page = Path("runs/agree/live/agree.html").read_text()
    assert "default-src 'none'" in page and "<script" not in page and "mini" in page
    assert not highwater("runs", "--format", "json").document


@pytest.mark.soak
def test_with_several_at_once_the_sheet_is_in_the_same_order(highwater: Highwater, other: Other) -> None:
    """The first waits for the last: it is played at the same time, or never ends."""

    def waiting(scenario: Scenario, trace: TraceLog, log_root: Path) -> Fabric:
        Path(f"{scenario.variant or 'base'}-begins").touch()
        while not Path("wrong-begins").exists():
            time.sleep(0.01)
        return simulated(scenario, trace, log_root)

    other(waiting)
    done = highwater("agree", "mini.yaml", "--live", "--jobs", "2", "--format", "json")
    assert done.code == 0
    assert [(row["name"], row["verdict"]) for row in done.document["rows"]] == [
        ("mini", "same"),
        ("mini:wrong", "same"),
        ("mini:silent", "not played"),
    ]


def test_what_differs_stands_in_80_columns_and_is_the_exit_code(highwater: Highwater, other: Other) -> None:
    """On slow links the leader dies before p1 can reach it, and the next one takes the records."""

    def slow(scenario: Scenario, trace: TraceLog, log_root: Path) -> Fabric:
        latency = Delay("constant", 700_000)
        return simulated(replace(scenario, network=replace(scenario.network, latency=latency)), trace, log_root)

    other(slow)
    done = highwater("agree", "mini.yaml:base", "--live")
    assert done.code == 1
    assert max(map(len, done.out.splitlines())) <= 80
    words = " ".join(done.out.split())
    assert "differs mini records, lost since 10.506 s simulated r0..r1 live none b1 t-0, final log simulated" in words
    *_, first, second = highwater("agree", "mini.yaml:base", "--live", "--format", "markdown").out.splitlines()
    assert first == "| `mini` | differs | 1 | records, lost since 10.506 s | r0..r1 | none |"
    assert second.startswith("| | | | b1 t-0, final log | ")


@pytest.mark.soak
def test_after_ctrl_c_it_shows_what_it_has_and_goes_on_from_there(highwater: Highwater, other: Other) -> None:
    calls: list[str | None] = []

    def interrupted(scenario: Scenario, trace: TraceLog, log_root: Path) -> Fabric:
        calls.append(scenario.variant)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return simulated(scenario, trace, log_root)

    other(interrupted)
    first = highwater("agree", "mini.yaml", "--live")
    assert first.code == 130 and "1 same, 0 noise, 0 differ" in " ".join(first.out.split())
    assert "To play the rest: highwater agree mini.yaml --live --times 1 --out runs/agree\n" in first.err
    again = highwater("agree", "mini.yaml", "--live", "--format", "json")
    assert (again.code, calls) == (0, [None, "wrong", "wrong"])
    assert again.document["counts"]["same"] == 2


def test_a_port_that_is_taken_is_no_lack_of_room(
    highwater: Highwater, other: Other, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # the report of an unexpected error

    def taken(scenario: Scenario, trace: TraceLog, log_root: Path) -> Fabric:
        raise OSError(errno.EADDRINUSE, "Address already in use")

    other(taken)
    done = highwater("agree", "mini.yaml", "--live")
    assert "Address already in use" in done.err and "cannot be written" not in done.err


def test_the_rest_of_the_whole_catalogue_is_the_same_command(
    highwater: Highwater, other: Other, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not 384 names: what is there is not played again."""

    def interrupted(scenario: Scenario, trace: TraceLog, log_root: Path) -> Fabric:
        raise KeyboardInterrupt

    other(interrupted)
    files = catalogue.bundled()
    monkeypatch.setattr(catalogue, "bundled", lambda: {"acks1-leader-kill": files["acks1-leader-kill"]})
    told = highwater("agree", "--live", "--times", "3", "--slack", "1500ms", "--random", "4..5", "--out", "kept").err
    assert "To play the rest: highwater agree --live --times 3 --slack 1500ms --random 4..5 --out kept\n" in told
    told = highwater("agree", "--live", "--out", "kept").err
    assert "To play the rest: highwater agree --live --times 1 --out kept\n" in told


@pytest.mark.soak
def test_how_long_it_takes_is_said_before_anything_is_played(highwater: Highwater, other: Other) -> None:
    """Two runs of 40 s can be played, three times each."""
    other(simulated)
    first, *_ = highwater("agree", "mini.yaml", "--live", "--times", "3").err.splitlines()
    assert first.startswith("agree: 2 of 3 runs can be played, 3 times each; this takes at most 4 min")


def test_errors_are_said_before_anything_is_played(highwater: Highwater, other: Other) -> None:
    other(simulated)
    assert highwater("agree", "mini.yaml").code == 2
    assert highwater("agree", "no-such-scenario", "--live").code == 3
    assert highwater("agree", "mini.yaml:no-such-variant", "--live").code == 2
    assert highwater("agree", "mini.yaml:silent", "--live").code == 3
    Path("a-file").write_text("")
    assert highwater("agree", "mini.yaml", "--live", "--out", "a-file/there").code == 6

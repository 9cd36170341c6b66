"""A record's story names what decided about it: the state, its coordinator, the marker, the last stable offset."""

from __future__ import annotations

from pathlib import Path

import pytest

from replica.trace.events import TraceRow
from scenarios.explain.explanation import explanation_text
from scenarios.explain.record import explain_record
from scenarios.language.parse.catalogue import find_scenario
from scenarios.language.parse.loading import load_file
from scenarios.observe.trace_writer import read_rows
from scenarios.run.runner import run_scenario
from scenarios.terminal.style import Style


@pytest.fixture(scope="module")
def held_up(tmp_path_factory: pytest.TempPathFactory) -> list[TraceRow]:
    scenario = load_file(find_scenario("txn-reader-held-up")).scenario
    run_dir = run_scenario(scenario, runs_dir=tmp_path_factory.mktemp("runs"), keep_logs=False).run_dir
    assert run_dir is not None
    return list(read_rows(Path(run_dir) / "trace"))


def lines(rows: list[TraceRow], record: str) -> list[str]:
    return [f"{one.at_us / 1e6:.3f} {one.sentence}" for one in explain_record(rows, record).moments]


DECIDED = (
    "30.125 b2, the coordinator, decided: transactional.id orders changed to PrepareAbort (producer id 1, epoch 2): "
    "it was open for longer than transaction.timeout.ms=20000, so it is aborted."
)
WAIT = (
    "10.007 Consumers with read_committed waited before r5: the last stable offset of t-0 is 6, where an open "
    "transaction of producer id 1 begins; the high watermark is 7."
)


def test_an_aborted_record_is_in_the_log_and_left_out(held_up: list[TraceRow]) -> None:
    told = lines(held_up, "r5")
    assert DECIDED in told and WAIT in told
    assert any("with an ABORT marker: at offset 14 (first record at 6)." in line for line in told)
    assert told[-1].startswith(
        "30.128 They continued past r5: the last stable offset of t-0 is at the high watermark 15"
    )
    assert explain_record(held_up, "r5").ending == (
        "r5 is at offset 6, but its transaction was aborted, so read_committed consumers skip it."
    )


def headline(rows: list[TraceRow], record: str) -> str:
    return explanation_text(explain_record(rows, record), Style()).strip().partition("    ")[0]


def test_the_headline_calls_a_record_safe_only_if_its_transaction_is_committed(held_up: list[TraceRow]) -> None:
    before = [row for row in held_up if row.at_us < 20_000_000 or row.event.TABLE == "final_log"]
    assert headline(before, "r5") == "Why record r5 waits in an open transaction"
    assert headline(held_up, "r5") == "Why record r5 was aborted"
    assert headline(held_up, "r0") == "Why record r0 is safe"


def test_a_record_behind_an_open_transaction_waits_and_a_committed_one_can_be_read(held_up: list[TraceRow]) -> None:
    assert not any("decided" in line or "marker" in line for line in lines(held_up, "s0"))
    assert explain_record(held_up, "s0").ending == "s0 is at offset 9 and can be read."
    assert any("b2, the coordinator, decided" in line and "PrepareCommit" in line for line in lines(held_up, "r0"))
    assert explain_record(held_up, "r0").ending == "r0 is at offset 0 and can be read."


def test_a_transaction_without_an_end_is_open(held_up: list[TraceRow]) -> None:
    before = [row for row in held_up if row.at_us < 20_000_000 or row.event.TABLE == "final_log"]
    assert explain_record(before, "r5").ending == (
        "r5 is at offset 6, in a transaction that is still open: it can be read with read_uncommitted, and "
        "read_committed consumers wait before it."
    )


@pytest.fixture(scope="module", params=["", "verified", "v2"])
def late(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[TraceRow]]:
    file = load_file(find_scenario("txn-hanging"))
    scenario = file.variants[request.param] if request.param else file.scenario
    run_dir = run_scenario(scenario, runs_dir=tmp_path_factory.mktemp("runs"), keep_logs=False).run_dir
    assert run_dir is not None
    return request.param, list(read_rows(Path(run_dir) / "trace"))


@pytest.mark.soak
def test_a_late_batch_is_explained_by_the_abort_before_it(late: tuple[str, list[TraceRow]]) -> None:
    variant, rows = late
    told = lines(rows, "r5")
    decided = next(place for place, line in enumerate(told) if "b2, the coordinator, decided" in line)
    assert "PrepareAbort" in told[decided] and told[decided].endswith("the producer asked to abort.")
    after = told[decided + 1 :]
    refused = {"verified": "TRANSACTION_ABORTABLE", "v2": "INVALID_PRODUCER_EPOCH"}
    if variant:
        assert not any("appended r5" in line for line in told)
        refusals = [line for line in after if "b1 refused a batch of p1 for t-0" in line]
        assert refusals and all(line.count(refused[variant]) == 1 for line in refusals)
    else:
        marker = "in t-0 with an ABORT marker: at offset 10 (no record of the transaction)."
        assert after[0] == f"12.108 b1 ended a transaction of producer id 0, epoch 0, {marker}"
        appended = next(line for line in after if "appended r5" in line)
        assert "at offset 11 too late: the ABORT marker at 10 ended its transaction" in appended
        waits = "Consumers with read_committed waited before s0: the last stable offset of t-0 was still 11."
        assert any(line.endswith(waits) for line in lines(rows, "s0"))
        assert explain_record(rows, "s0").ending == (
            "s0 is at offset 12 and can be read with read_uncommitted; read_committed consumers wait at offset 11, "
            "before it."
        )


def test_a_record_of_a_deleted_topic_is_gone_though_the_topic_is_made_again(tmp_path: Path) -> None:
    scenario = load_file(find_scenario("topic-deleted")).scenario
    run_dir = run_scenario(scenario, runs_dir=tmp_path, keep_logs=False).run_dir
    assert run_dir is not None
    rows = list(read_rows(Path(run_dir) / "trace"))
    told = lines(rows, "r0")
    assert told[-1].endswith("deleted its log of t-0: the topic was deleted. r0 was no longer in any log.")
    assert explain_record(rows, "r0").ending == "r0 was acked, and an operator deleted it later, so it is not lost."

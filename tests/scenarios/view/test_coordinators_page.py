"""Transactions and groups on the page: what the coordinators have said, and how their partitions' logs look for it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from playwright.sync_api import Browser

from replica.trace import events as t
from scenarios.cli.view import write_page
from scenarios.language.parse.catalogue import find_scenario
from scenarios.language.parse.loading import load_file
from scenarios.observe.groups import Groups
from scenarios.observe.trace_writer import arrow_schema, read_rows, trace_sha256
from scenarios.run.runner import run_scenario
from scenarios.view.coordinators import NO_MEMBERS, REBALANCING, STABLE, STATES
from scenarios.view.live_tape import LiveTape, PageProgress
from scenarios.view.tape import record_tape
from tests.browser import needs_chromium
from tests.driven import Driven, axe_core, driven
from tests.group_script import GroupScript
from tests.hostile_names import EVIL


def play(name: str, runs_dir: Path) -> Path:
    run_dir = run_scenario(load_file(find_scenario(name)).scenario, runs_dir=runs_dir, keep_logs=False).run_dir
    assert run_dir is not None
    return run_dir


@pytest.fixture(scope="module")
def held_up(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return play("txn-reader-held-up", tmp_path_factory.mktemp("held-up"))


# ------------------------------------------------------------------------------------------------------------ the tape


def changes_of(document: dict[str, Any], kind: str) -> list[list[Any]]:
    return [change[1:] for changes in document["changes"] for change in changes if change[0] == kind]


@pytest.mark.soak
def test_the_tape_has_every_state_marker_and_step_of_the_last_stable_offset(held_up: Path) -> None:
    rows = list(read_rows(held_up / "trace"))
    document = record_tape(rows).as_json()
    assert document["txns"] == ["orders"]
    assert [STATES[state] for _, _, state, *_ in changes_of(document, "txn")] == [
        "Empty", "Ongoing", "PrepareCommit", "CompleteCommit", "Ongoing", "PrepareAbort", "CompleteAbort",
    ]  # fmt: skip
    assert [(epoch, fences) for *_, epoch, fences in changes_of(document, "txn")][-2:] == [(2, 1), (2, 0)]
    written = [row.event for row in rows if isinstance(row.event, t.TransactionMarkerWritten)]
    assert [change[2:5] for change in changes_of(document, "marker")] == [
        [event.offset, int(event.committed), event.first_offset] for event in written
    ]
    assert [offset for _, offset in changes_of(document, "stable")] == [0, -1, 6, -1]
    transactional = [change for change in changes_of(document, "append") if len(change) == 6]
    assert {record for *_, records, _ in transactional for record in records} >= {document["records"].index("r5")}


def test_a_tape_without_coordinators_is_what_it_was(tmp_path: Path) -> None:
    document = record_tape(list(read_rows(play("acks1-leader-kill", tmp_path) / "trace"))).as_json()
    assert not {"txns", "groups", "assigned", "members"} & document.keys()
    assert not [change for kind in ("txn", "marker", "stable", "group", "own") for change in changes_of(document, kind)]
    assert {len(change) for change in changes_of(document, "append")} == {5}


def owners_of(script: GroupScript) -> dict[str, str | None]:
    groups = Groups()
    for row in script.rows:
        groups(row)
    return groups.groups[script.group].owners


def story_of(script: GroupScript) -> list[tuple[Any, ...]]:
    """Of the tape: (partition, owner or None) when it changes, and the phases between."""
    document = record_tape(script.rows).as_json()
    found: list[tuple[Any, ...]] = []
    for changes in document["changes"]:
        for kind, _, *values in changes:
            if kind == "group":
                found.append((["no members", "rebalancing", "stable"][values[1]], values[2]))
            elif kind == "own":
                member = document["members"][values[1]][0] if values[1] >= 0 else None
                found.append((document["assigned"][values[0]], member if values[2] else "no group"))
    return found


def test_members_of_an_eager_group_have_nothing_while_it_rebalances() -> None:
    script = GroupScript()
    script.joined("m1")
    script.rebalanced(1, "range", m1=("t-0", "t-1"))
    script.joined("m2")
    script.rebalance_began(1)
    assert owners_of(script) == {"t-0": None, "t-1": None}
    script.rebalanced(2, "range", m1=("t-0",), m2=("t-1",))
    assert story_of(script) == [
        ("stable", -1), ("stable", 1), ("t-0", "m1"), ("t-1", "m1"), ("rebalancing", 1), ("t-0", None), ("t-1", None),
        ("rebalancing", 2), ("stable", 2), ("t-0", "m1"), ("t-1", "m2"),
    ]  # fmt: skip
    assert (NO_MEMBERS, REBALANCING, STABLE) == (0, 1, 2)


def test_members_of_a_cooperative_group_keep_what_they_have() -> None:
    script = GroupScript()
    script.joined("m1")
    script.rebalanced(1, "cooperative-sticky", m1=("t-0", "t-1"))
    script.joined("m2")
    script.rebalance_began(1)
    assert owners_of(script) == {"t-0": "m1", "t-1": "m1"}
    script.rebalanced(2, "cooperative-sticky", m1=("t-0",), m2=())
    assert owners_of(script) == {"t-0": "m1", "t-1": None}


def test_a_member_of_a_consumer_group_has_what_it_is_still_to_give_up() -> None:
    script = GroupScript()
    script.joined("m1")
    script.reconciled("m1", 1, "t-0", "t-1")
    script.reconciled("m1", 1, "t-0", revoking=("t-1",))
    assert owners_of(script) == {"t-0": "m1", "t-1": "m1"}
    script.reconciled("m1", 2, "t-0")
    assert owners_of(script) == {"t-0": "m1", "t-1": None}


def test_a_static_member_that_comes_back_has_what_it_had_and_an_empty_group_leaves_nothing_unread() -> None:
    script = GroupScript()
    script.joined("m1", instance="i1")
    script.rebalanced(1, "range", m1=("t-0",))
    script.joined("m2", instance="i1")
    assert owners_of(script) == {"t-0": "m2"}
    script.left("m2")
    script.rebalanced(2, "range")
    assert owners_of(script) == {} and story_of(script)[-2:] == [("t-0", "no group"), ("no members", 2)]


def test_a_tape_of_a_running_cluster_goes_on_with_open_transactions_and_groups(held_up: Path) -> None:
    """When it gives way to the next one."""
    rows = [row for row in read_rows(held_up / "trace") if row.at_us < 20_000_000]
    script = GroupScript()
    script.joined("m1")
    script.rebalanced(1, "range", m1=("t-0",))
    live = LiveTape({}, events_max=100)
    for row in [*script.rows, *rows]:
        live(row)
    part = live.part(PageProgress())
    assert part["begins"] and part["txns"] == ["orders"] and part["groups"] == ["g"]
    (first, *_) = part["changes"]
    assert [STATES[change[3]] for change in first if change[0] == "txn"] == ["Ongoing"]
    assert [change[2] for change in first if change[0] == "stable"] == [6]
    assert part["members"] == [["m1", "m1-client"]] and ["own", 0, 0, 0, 1] in first


# ------------------------------------------------------------------------------------------------------------ the page

AT_20_S = "#t=20&r=0&p=0"


def drawn(shown: Driven, selector: str) -> str:
    return shown.page.text_content(selector) or ""


def count(shown: Driven, selector: str) -> int:
    return shown.page.locator(selector).count()


@pytest.mark.soak
@needs_chromium
def test_a_reader_sees_why_committed_records_wait(browser: Browser, held_up: Path, tmp_path: Path) -> None:
    page = write_page([held_up], tmp_path / "page.html")
    with driven(browser, page.as_uri() + AT_20_S) as shown:
        assert drawn(shown, ".stable-flag + text") == "LSO 6"
        assert count(shown, ".lane.broker .cell.open") == 9 and count(shown, ".cell.aborted") == 0
        assert "what is committed, below the leader's last stable offset 6" in drawn(shown, ".lane.consumer")
        shown.press("g", "s", "s", "s", "s", "s", "s")
        words = shown.text(".coordinators")
        assert "Ongoing" in words and "since 10.004 s; producer id 1, epoch 1; coordinator b2" in words
        assert "t-0: the last stable offset stands at 6, 8 below the high watermark" in words
        spans = shown.page.eval_on_selector_all(".span title", "(all) => all.map((one) => one.textContent)")
        assert "orders: Ongoing, producer id 1, epoch 1, coordinator b2, 10.004 to 30.125 s" in spans
        assert count(shown, ".held-area") > 0 and "LSO 6" in describe(shown)
        shown.press("End")
        assert (count(shown, ".stable-flag"), count(shown, ".cell.open"), count(shown, ".cell.aborted")) == (0, 0, 9)
        assert shown.page.locator(".cell.marker .name").all_text_contents() == ["✓", "⊘"] * 3
        assert shown.page.locator(".lane.consumer .acked").all_text_contents()[-5:] == ["s0", "s1", "s2", "s3", "s4"]
        shown.press("Home")
        assert "No coordinator has heard of a transactional.id yet." in shown.text(".coordinators")


def describe(shown: Driven) -> str:
    shown.press("x")
    return drawn(shown, "p[role=status]")


@pytest.mark.soak
@needs_chromium
def test_a_page_without_transactions_has_nothing_of_them(browser: Browser, tmp_path: Path) -> None:
    page = write_page([play("acks1-leader-kill", tmp_path)], tmp_path / "page.html")
    with driven(browser, page.as_uri()) as shown:
        assert not shown.page.is_visible("#tab-coordinators") and "transaction" not in shown.text(".legend")
        assert count(shown, ".span, .stable-line, .stable-flag, .cell.open") == 0
        shown.press("?")
        assert "coordinators" not in shown.text("dialog")


@pytest.mark.soak
@needs_chromium
def test_a_member_that_is_frozen_is_drawn_as_one_that_does_not_read(browser: Browser, tmp_path: Path) -> None:
    scenario = load_file(find_scenario("group-one-stalls")).variants["consumer"]
    run_dir = run_scenario(scenario, runs_dir=tmp_path, keep_logs=False).run_dir
    assert run_dir is not None
    page = write_page([run_dir], tmp_path / "page.html")
    with driven(browser, page.as_uri() + "#t=25&r=0&p=1") as shown:
        shown.press("g", "s", "s", "s", "s", "s", "s")
        assert "m1, frozen" in shown.text(".coordinators")
        spans = shown.page.eval_on_selector_all(".span.unread title", "(all) => all.map((one) => one.textContent)")
        assert "t-1: m1 is to read it, and is frozen, for 8.547 s, 20.000 to 28.547 s" in spans


@pytest.mark.soak
@needs_chromium
def test_a_producer_that_is_frozen_or_dead_is_drawn_as_a_broker_is(browser: Browser, tmp_path: Path) -> None:
    page = write_page([play("txn-zombie", tmp_path)], tmp_path / "page.html")
    with driven(browser, page.as_uri() + "#t=15&r=0&p=0") as shown:
        assert "FROZEN" in shown.page.locator(".lane.producer").first.text_content()
        assert count(shown, ".lane.producer .fault-area") == 1
    dead = write_page([play("txn-reader-held-up", tmp_path)], tmp_path / "dead.html")
    with driven(browser, dead.as_uri() + AT_20_S) as shown:
        assert "DOWN" in shown.page.locator(".lane.producer").first.text_content()


def hostile_run(held_up: Path, runs_dir: Path) -> Path:
    """With EVIL in the name of the transactional.id, and a group all of whose names are evil, too."""
    run_dir = runs_dir / "hostile"
    shutil.copytree(held_up, run_dir)
    summary = json.loads((run_dir / "summary.json").read_text())
    (part,) = (run_dir / "trace" / "transaction").glob("*.parquet")
    rows = pq.read_table(part).to_pylist()
    for row in rows:
        row["transactional_id"] = row["transactional_id"] and row["transactional_id"] + EVIL
    pq.write_table(pa.Table.from_pylist(rows, schema=arrow_schema("transaction")), part)
    script = GroupScript(EVIL)
    script.joined(f"m1{EVIL}")
    script.rebalance_began()
    script.rebalanced(1, EVIL, **{f"m1{EVIL}": (f"t-0{EVIL}",)})
    columns = [name for name in arrow_schema("group").names if name not in ("seq", "at_us", "event", "causes")]
    rows = [
        {"seq": summary["events"] + row.seq, "at_us": 60_000_000, "event": t.EVENT_NAMES[type(row.event)], "causes": []}
        | {name: getattr(row.event, name, None) for name in columns}
        | {"reason": row.event.sentence()}
        for row in script.rows
    ]
    (run_dir / "trace" / "group").mkdir()
    table = pa.Table.from_pylist(rows, schema=arrow_schema("group"))
    pq.write_table(table, run_dir / "trace" / "group" / "part-00000.parquet")
    summary["trace_sha256"] = trace_sha256(run_dir / "trace")
    (run_dir / "summary.json").write_text(json.dumps(summary))
    return run_dir


@pytest.mark.soak
@needs_chromium
def test_names_of_transactions_and_groups_are_text(browser: Browser, held_up: Path, tmp_path: Path) -> None:
    page = write_page([hostile_run(held_up, tmp_path)], tmp_path / "page.html")
    with driven(browser, page.as_uri()) as shown:
        shown.press("g", "End", "s", "s", "s", "s", "s", "s", "x")
        words = shown.text(".coordinators") + drawn(shown, ".strip")
        assert "orders<script>alert(1)</script>" in words and "m1<script>alert(1)" in words and "\u202e" not in words
        assert shown.page.evaluate("document.querySelectorAll('script').length") == 2


@needs_chromium
@pytest.mark.soak
@pytest.mark.skipif(axe_core() is None, reason="axe-core is not installed here (npm install axe-core, NODE_PATH)")
def test_axe_finds_nothing_beside_transactions_and_groups(browser: Browser, held_up: Path, tmp_path: Path) -> None:
    axe = axe_core()
    assert axe is not None
    page = write_page([hostile_run(held_up, tmp_path)], tmp_path / "page.html")
    with driven(browser, page.as_uri() + AT_20_S) as shown:
        shown.page.evaluate(axe.read_text(encoding="utf-8"))
        for keys in (["g"], ["s", "s", "s", "s", "s", "s"], ["End"]):
            shown.press(*keys)
            for _ in range(3):
                shown.press("t")
                found = shown.page.evaluate(
                    "axe.run().then((found) => found.violations.map((one) => [one.id, one.nodes[0].html]))"
                )
                assert found == []
        shown.page.set_viewport_size({"width": 420, "height": 800})
        shown.settle()
        assert shown.page.evaluate("document.documentElement.scrollWidth") == 420

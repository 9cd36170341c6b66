"""The tape and the questions: the page plays what is in the trace."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from replica.trace.events import BatchAppended, RecordSent, TraceRow
from scenarios.explain.kept_outcomes import KeptOutcome
from scenarios.language.parse.catalogue import find_scenario
from scenarios.language.parse.loading import load_file, load_text
from scenarios.language.steps import At
from scenarios.language.verbs.process import Kill
from scenarios.observe.trace_writer import read_rows
from scenarios.observe.view import ClusterView
from scenarios.run.runner import run_scenario
from scenarios.view.page import decisive_place, difference, run_of_page
from scenarios.view.places import NOTHING
from scenarios.view.tape import Tape, record_tape

Played = tuple[list[TraceRow], dict[str, Any]]


def play(name: str, runs_dir: Path, variant: str | None = None) -> Played:
    file = load_file(find_scenario(name))
    result = run_scenario(file.variants[variant] if variant else file.scenario, runs_dir=runs_dir, keep_logs=False)
    assert result.run_dir is not None
    return list(read_rows(result.run_dir / "trace")), result.summary


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Played:
    return play("acks1-leader-kill", tmp_path_factory.mktemp("view"))


def replicas_at_the_end(tape: Tape) -> dict[tuple[str, str], list[Any]]:
    """By partition and broker, the state that the last change sets."""
    partitions, nodes = list(tape.partitions), list(tape.nodes)
    found: dict[tuple[str, str], list[Any]] = {}
    for changes in tape.changes:
        for kind, *values in changes:
            if kind == "replica":
                found[partitions[values[0]], nodes[values[1]]] = values[2:]
            elif kind == "gone":
                found = {key: state for key, state in found.items() if key[0] != partitions[values[0]]}
    return found


@pytest.mark.soak
@pytest.mark.parametrize(
    "name", ["acks1-leader-kill", "reassign-target-dies", "kip101-replica-divergence", "elr-exhausted"]
)
def test_changes_lead_to_the_state_that_the_trace_ends_in(name: str, tmp_path: Path) -> None:
    """However few events the page has room for."""
    rows, _ = play(name, tmp_path)
    view = ClusterView((), ())
    for row in rows:
        view(row)
    expected = {
        (str(partition.topic_partition), node): [
            {"leader": 2, "follower": 1, None: 0}[replica.role],
            replica.leader_epoch,
            replica.log_start_offset,
            replica.log_end_offset,
            replica.high_watermark,
        ]
        for partition in view.partitions.values()
        for node, replica in partition.replicas.items()
        if not partition.topic_partition.topic.startswith("__")
    }
    for events_max in (60_000, 150, 20):
        found = replicas_at_the_end(record_tape(rows, events_max))
        assert {key: found[key] for key in expected} == expected


def test_a_tape_that_is_too_long_leaves_out_what_says_least_and_counts_it(killed: Played) -> None:
    rows, _ = killed
    whole, short = record_tape(rows), record_tape(rows, 150)
    assert len(short) < 200 < len(whole) and short.left_out == len(whole) - len(short) + whole.left_out
    key_moments = [(at, sign) for at, sign in zip(whole.at_us, whole.key, strict=True) if sign]
    assert [(at, sign) for at, sign in zip(short.at_us, short.key, strict=True) if sign] == key_moments


def test_a_message_goes_from_another_node_and_takes_time(killed: Played) -> None:
    tape = record_tape(killed[0])
    nodes, kinds = list(tape.nodes), list(tape.kinds)
    flights = {
        (kinds[tape.kind[place]], nodes[tape.node[sender]], nodes[tape.node[place]])
        for place, sender in enumerate(tape.sender)
        if sender >= 0
    }
    assert {
        ("batch_appended", "p1", "b1"),
        ("batch_appended", "b1", "b2"),
        ("record_acked", "b1", "p1"),
        ("follower_fetched", "b2", "b1"),
        ("record_read", "b1", "c1r"),
        ("leadership_began", "c1", "b2"),
    } <= flights
    assert all(
        tape.at_us[sender] < tape.at_us[place] and tape.node[sender] != tape.node[place]
        for place, sender in enumerate(tape.sender)
        if sender >= 0
    )


def test_key_moments_are_named_in_a_few_words(tmp_path: Path) -> None:
    tape = record_tape(play("acks1-leader-kill", tmp_path)[0])
    texts = list(tape.texts)
    named = [texts[short] for short, sign in zip(tape.short, tape.key, strict=True) if sign]
    assert [one for one in named if one != "b1 fenced"][:4] == ["fault", "b1 down", "b2 elected", "ISR {b2, b3}"]
    assert all(short == NOTHING for short, sign in zip(tape.short, tape.key, strict=True) if not sign)


def test_a_message_that_was_held_back_comes_from_where_it_was_sent(tmp_path: Path) -> None:
    rows, _ = play("txn-hanging", tmp_path)
    tape = record_tape(rows)
    appended = [row for row in rows if isinstance(row.event, BatchAppended) and row.at_us >= 20_000_000]
    late = tape.places[appended[0].seq]
    assert tape.key[late] == "refused"
    assert list(tape.texts)[tape.text[tape.sender[late]]].startswith("p1 sent r5 to b1")


def test_a_page_opens_on_what_clients_have_seen_and_not_on_the_start_of_a_live_cluster() -> None:
    tape = Tape()
    events = [
        (1, "node_started", "up"), (2, "leader_elected", "elected"), (3, "record_sent", ""), (4, "record_acked", ""),
        (5, "isr_committed", "isr"),
    ]  # fmt: skip
    for at_us, kind, sign in events:
        tape.at_us.append(at_us)
        tape.kind.append(tape.kinds.place(kind))
        tape.key.append(sign)
        tape.partition.append(NOTHING)
        tape.changes.append([["node", 0, 1]])
    assert decisive_place(tape, [], {"anomalies": []}) == 4
    tape.key[4] = ""
    assert decisive_place(tape, [], {"anomalies": []}) == 3
    tape.key[0] = "fault"
    assert decisive_place(tape, [], {"anomalies": []}) == 0


def test_a_kill_stands_on_the_tape_once(killed: Played) -> None:
    tape = record_tape(killed[0])
    told = [text for text in (list(tape.texts)[place] for place in tape.text) if "b1 was killed" in text]
    assert len(told) == 1
    assert any(span.verb == "kill" for span in tape.faults)


QUIET = """\
schema: 1
id: quiet
title: One record after the other through a narrow card
seed: 1
duration: 20s
cluster: {brokers: {north: {}, south: {}}}
network: {cards: {north: CARD}}
topics: {shop.orders: {partitions: {0: [north, south]}}}
workloads: {till: {kind: producer, topic: shop.orders, size: 10kB, rate: 2/s, start: 2s, stop: 4s, config: {acks: all}}}
timeline: [{at: 19s, check: {state: {shop.orders-0: {leader: north}}}}]
expect: {verdict: ok}
"""


@pytest.mark.parametrize(
    ("card", "opens_on"), [("5kB/s", "till got the ack of r3 from north after 13.3 s"), ("5MB/s", "")]
)
def test_a_page_of_nothing_but_load_opens_on_the_slowest_ack(card: str, opens_on: str) -> None:
    run = run_scenario(load_text(QUIET.replace("CARD", card), "quiet.yaml").scenario, runs_dir=None, keep_rows=True)
    document = run_of_page(run.rows, run.summary).document
    told = document["tape"]["texts"][document["tape"]["text"][document["opens_at"]]]
    assert told.startswith(opens_on) and bool(document["stories"]) == bool(opens_on)


def test_the_page_opens_on_what_decided_and_asks_before_it(killed: Played) -> None:
    scenario = replace(load_file(find_scenario("acks1-leader-kill")).scenario, questions=())
    document = run_of_page(*killed, scenario).document
    tape = document["tape"]
    opens_at = document["opens_at"]
    assert tape["texts"][tape["text"][opens_at]].startswith(
        "b2 was elected leader of t-0 in epoch 1 as the first member of the ISR {b1, b2, b3} that counts as live"
    )
    asked = [(before, options[answer]) for before, _, options, answer, *_ in document["questions"]]
    assert [answer for _, answer in asked] == ["all but r10..r14", "b2", "it truncates its log to 10"]
    assert [story["record"] for story in document["stories"]] == ["r10", "r11", "r12", "r13", "r14"]
    for before, _ in asked:
        first_hidden, last_seen = sum(tape["at"][: before + 1]), sum(tape["at"][:before])
        assert last_seen < first_hidden, "what happens in the same instant gives the answer away"


PARTITIONS = """
schema: 1
id: partitions
title: Three partitions, of which one is written to
duration: 30s
cluster: {controllers: [c1], brokers: {b1: {}, b2: {}, b3: {}}}
topics: {orders: {partitions: {0: [b1, b2, b3], 1: [b2, b3, b1], 2: [b1, b3, b2]}}}
workloads:
  p1: {kind: producer, topic: orders, partition: 2, rate: 5/s, stop: 20s, config: {acks: 1}}
timeline: [{at: 5s, kill: b1}, {at: 20s, start: b1}]
"""


def test_the_page_opens_on_and_asks_about_a_partition_with_records() -> None:
    """The leader of orders-0 is elected in the same instant, just before."""
    result = run_scenario(load_text(PARTITIONS, "partitions.yaml").scenario, runs_dir=None, keep_rows=True)
    document = run_of_page(result.rows, result.summary, result.scenario).document
    tape, questions = document["tape"], document["questions"]
    names = tape["partitions"]
    elected = [tape["part"][place] for place, sign in enumerate(tape["key"]) if sign == "elected"]
    assert "orders-0" in {names[place] for place in elected}
    assert names[tape["part"][document["opens_at"]]] == "orders-2"
    assert questions and {names[about] for *_, about in questions} == {"orders-2"}


def test_a_page_says_when_the_same_event_happens_in_two_runs() -> None:
    file = load_file(find_scenario("acks1-leader-kill"))
    kill = next(step for step in file.scenario.timeline if isinstance(step.payload, Kill))
    runs = []
    for at_us in (10_500_000, 10_400_000):
        timeline = tuple(replace(step, trigger=At(at_us)) if step is kill else step for step in file.scenario.timeline)
        result = run_scenario(replace(file.scenario, timeline=timeline), runs_dir=None, keep_rows=True)
        runs.append(run_of_page(result.rows, result.summary))
    killed = "b1 was killed (kill -9); its page cache survived"
    assert difference(*runs) == [10_400_000, f"at 10.400 s, {killed}", f"at 10.500 s, {killed}"]


def test_nothing_is_asked_where_there_is_one_answer_only(tmp_path: Path) -> None:
    rows, summary = play("acks1-leader-kill", tmp_path, "acks-all")
    questions = run_of_page(rows, summary).document["questions"]
    assert questions and all(len(set(options)) == len(options) > 1 for _, _, options, *_ in questions)


def test_a_record_sent_before_its_partition_is_known_makes_no_partition() -> None:
    sent = RecordSent(client="p1", topic="t", partition=-1, record="r0", acks=1)
    tape = record_tape([TraceRow(1, 0, (), sent)])
    assert list(tape.partitions) == [] and tape.changes == [[["record", 0, 0, 0, -1]]]


def test_what_if_results_are_on_the_page_by_record(killed: Played) -> None:
    outcome = KeptOutcome("acks=all", True, "acked and kept")
    document = run_of_page(*killed, what_if={"r10": [outcome]}).document
    assert document["what_if"] == {"r10": [["acks=all", 1, "acked and kept"]]}
    assert run_of_page(*killed).document["what_if"] == {}

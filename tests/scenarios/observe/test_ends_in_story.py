"""A process that ends because it was refused says why, on the screen and in the trace."""

from __future__ import annotations

from pathlib import Path

import pytest
from trace_script import TraceScript

from replica.trace.events import NodeStopped
from replica.trace.signs import SIGNS
from scenarios.language.parse.catalogue import find_scenario
from scenarios.language.parse.loading import load_file, load_text
from scenarios.observe.story import Story
from scenarios.observe.trace_writer import read_rows
from scenarios.observe.view import ClusterView
from scenarios.run.runner import run_scenario


@pytest.mark.parametrize(
    ("name", "variant", "expected"),
    [
        (
            "group-one-stalls",
            "switched-off",
            {
                f"m{number} ended: UNSUPPORTED_VERSION: the cluster does not support group.protocol=consumer"
                for number in (1, 2, 3, 4)
            },
        ),
    ],
)
def test_an_application_that_is_refused_ends_with_its_reason(
    name: str, variant: str, expected: set[str], tmp_path: Path
) -> None:
    scenario = load_file(find_scenario(name)).variants[variant]
    run_dir = run_scenario(scenario, runs_dir=tmp_path, keep_logs=False).run_dir
    assert run_dir is not None
    rows = list(read_rows(run_dir / "trace"))
    ended = {row.event.sentence(): row.event.how for row in rows if isinstance(row.event, NodeStopped)}
    assert ended == dict.fromkeys(expected, "stop")
    assert expected <= {line.text for line in Story.of(ClusterView((), ()), rows).lines}


def test_the_return_of_a_client_is_told_and_its_first_start_is_not(tmp_path: Path) -> None:
    run_dir = run_scenario(load_file(find_scenario("ctp-killed")).scenario, runs_dir=tmp_path, keep_logs=False).run_dir
    assert run_dir is not None
    told = [line.text for line in Story.of(ClusterView((), ()), read_rows(run_dir / "trace")).lines]
    assert [text for text in told if text.startswith("t1 ")][:2] == ["t1 was killed (kill -9)", "t1 started again"]


@pytest.mark.soak
def test_members_that_come_back_and_a_change_of_protocol_are_told(tmp_path: Path) -> None:
    scenario = load_file(find_scenario("group-changes-protocol")).scenario
    run_dir = run_scenario(scenario, runs_dir=tmp_path, keep_logs=False).run_dir
    assert run_dir is not None
    lines = Story.of(ClusterView((), ()), read_rows(run_dir / "trace")).lines
    joined = [line.at_us // 1_000_000 for line in lines if " into " in line.text]
    assert joined == [21, 31, 41], "and none of the three with which the group begins"
    assert [line.text for line in lines if "to a consumer group" in line.text]
    assert [line.sign for line in lines if "shut down cleanly" in line.text] == ["ended"] * 3


@pytest.mark.parametrize(("how", "sign"), [("stop", "ended"), ("kill", "down"), ("halt", "down"), ("died", "down")])
def test_an_orderly_end_has_another_sign_than_a_death(how: str, sign: str) -> None:
    script = TraceScript()
    stopped = NodeStopped(node="p1", how=how)
    script.emit(stopped)
    (line,) = Story.of(script.view, script.rows).lines
    assert (line.sign, line.text) == (sign, stopped.sentence())
    assert SIGNS["ended"] != SIGNS["down"]


FAULTS = """\
schema: 1
id: faults
title: T
duration: 10s
cluster: {brokers: {b1: {}, b2: {}, b3: {}}}
topics: {t: {partitions: 1, replication_factor: 3}}
workloads: {p1: {kind: producer, topic: t, rate: 1/s}}
timeline:
  - {at: 1s, cut: {between: [b1, b2]}}
  - {at: 1s, cut: {between: [b1, b3]}}
  - {at: 2s, hold: {from: b2, to: b3}}
  - {at: 3s, release: all}
  - {at: 3s, heal: all}
  - {at: 4s, cut: {between: [b1, b2]}, for: 1s}
"""


def test_a_step_that_ends_faults_is_told_once(tmp_path: Path) -> None:
    run_dir = run_scenario(load_text(FAULTS, "faults.yaml").scenario, runs_dir=tmp_path, keep_logs=False).run_dir
    assert run_dir is not None
    told = [
        (line.at_us // 1_000_000, line.text)
        for line in Story.of(ClusterView((), ()), read_rows(run_dir / "trace")).lines
    ]
    assert [text for second, text in told if second == 3] == [
        "the messages held back by hold-3 were released",
        "the network was healed: cut-2, cut-1",
    ]
    assert [text for second, text in told if second == 5] == ["cut-6 was healed"]

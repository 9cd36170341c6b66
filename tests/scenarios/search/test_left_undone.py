"""Inputs that a group leaves undone, although a member runs: a finding, unless no coordinator can end a transaction."""

from __future__ import annotations

import pytest
from trace_script import TraceScript

from replica.ids import TRANSACTIONS_TOPIC
from replica.trace.events import ReplicaFound
from scenarios.language.parse.catalogue import bundled
from scenarios.language.parse.loading import load_file
from scenarios.search.findings import left_undone


@pytest.mark.parametrize(("has_leader", "undone"), [(True, ("r0",)), (False, ())])
def test_inputs_below_a_transaction_without_a_coordinator_may_stay_undone(
    has_leader: bool, undone: tuple[str, ...]
) -> None:
    """Search found it in era 4.1: an operator had unregistered the only broker that could lead the coordinators."""
    scenario = load_file(bundled()["ctp-killed"]).scenario
    script = TraceScript()
    script.start("t1", "transform")
    script.replicate("r0", acks=-1)
    for node in script.brokers:
        script.find(node, "r0")
    script.emit(
        ReplicaFound(
            "b1", TRANSACTIONS_TOPIC, 0, log_start_offset=0, log_end_offset=9, high_watermark=9, is_leader=has_leader,
            in_isr=True, running=True, in_elr=False, leader_epoch=0,
        )
    )  # fmt: skip
    script.ledger.close()
    assert left_undone(scenario, script.rows, script.ledger) == undone

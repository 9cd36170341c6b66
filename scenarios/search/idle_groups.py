"""Inputs that no member of a group has worked on by the end of a run, though one of them runs and they can be read.

No invariant of Kafka speaks of it, but a group that stands still for good, or that has gone past a record, is wrong
wherever nothing disturbs it any more.
"""

from __future__ import annotations

from collections.abc import Iterable

from replica.trace.events import NodeStarted, NodeStopped, TraceRow
from scenarios.language.spec import Scenario
from scenarios.observe.ledger import RecordLedger


def left_undone(scenario: Scenario, rows: Iterable[TraceRow], ledger: RecordLedger) -> tuple[str, ...]:
    """Names of acked inputs, in the order of sending, of which there is no output.

    rows: the whole trace of a run that ended quietly; ledger: of the same run
    Not judged before KIP-890 (3.6): a transaction may hang there, and readers of committed records wait behind it.
    """
    if scenario.rules.transactions not in ("verified", "v2"):
        return ()
    running = _running(rows)
    found: dict[str, None] = {}
    for workload in scenario.transforms:
        if workload.name in running:
            producers = [producer.name for producer in scenario.producers if producer.topic in workload.topics]
            for entry in ledger:
                is_input = entry.acked and entry.client in producers and ledger.copies(entry.name)
                if is_input and not ledger.copies(f"{workload.prefix}{entry.name}"):
                    found[entry.name] = None
    return tuple(found)


def _running(rows: Iterable[TraceRow]) -> dict[str, None]:
    found: dict[str, None] = {}
    for row in rows:
        if isinstance(row.event, NodeStarted):
            found[row.event.node] = None
        elif isinstance(row.event, NodeStopped):
            found.pop(row.event.node, None)
    return found

"""A refusal names its error once, on the terminal and in the trace."""

from __future__ import annotations

import pytest
from trace_script import HERE, TraceScript

from replica.causes import FencingCause
from replica.trace import events as trace
from scenarios.observe.story import Story


@pytest.mark.parametrize(
    ("why", "line"),
    [
        ("", "b1 refused a batch of p1 for t-0 with UNKNOWN_TOPIC_OR_PARTITION"),
        ("it is too old", "b1 refused a batch of p1 for t-0 with UNKNOWN_TOPIC_OR_PARTITION: it is too old"),
    ],
)
def test_a_refusal_names_its_error_once(why: str, line: str) -> None:
    script = TraceScript()
    refused = trace.ProduceRefused(node="b1", peer="p1", error="UNKNOWN_TOPIC_OR_PARTITION", message=why, **HERE)
    script.emit(refused)
    assert line in [said.text for said in Story.of(script.view, script.rows).lines]
    assert refused.sentence() == line


def test_an_event_that_makes_its_sentence_is_told_by_it() -> None:
    fenced = trace.BrokerFenced(node="c1", broker="b2", cause=FencingCause.NO_HEARTBEAT, silent_us=9_100_000)
    assert fenced.sentence() == "b2 was fenced: no heartbeat for 9.1 s"

"""A forgotten producer may begin anywhere: its next batch may repeat what the log has or had.

It is forgotten if it was silent for producer.id.expiration.ms, or if the log is opened or cut after all its records
were deleted.
"""

from __future__ import annotations

import pytest
from fake_probe import FakeProbe
from trace_script import TraceScript

from replica.causes import RetentionCause
from replica.rules import PROFILES
from replica.trace import events as trace
from scenarios.language.parse.loading import load_text
from scenarios.run.runner import run_scenario

FIRST, SECOND = (7, 0, 0), (7, 0, 1)


def repeat(script: TraceScript, after_s: float) -> None:
    """r1 is sent again, so long after it was sent first, and a follower copies both."""
    script.send("r0", "r1")
    script.request("r0", producer_id=7)
    script.request("r1", producer_id=7)
    for node in ("b1", "b2"):
        script.append(node, 0, "r0", producer=FIRST)
        script.append(node, 1, "r1", producer=SECOND)
    script.at(1 + after_s)
    script.request("r1", attempt=2, producer_id=7)
    for node in ("b1", "b2"):
        script.append(node, 2, "r1", producer=SECOND)


def shorten(script: TraceScript, seconds: int) -> None:
    key, value = "producer.id.expiration.ms", str(seconds * 1000)
    script.emit(trace.ConfigAltered(node="c1", broker="b1", key=key, value=value))


@pytest.mark.parametrize(
    ("expiration_s", "after_s", "is_broken"),
    [
        pytest.param(5, 6, False, id="forgotten"),
        pytest.param(5, 4, True, id="too early"),
        pytest.param(None, 1000, True, id="no broker forgets so soon of its own accord"),
    ],
)
def test_a_repeated_batch_of_a_producer_that_was_forgotten_is_no_broken_rule(
    expiration_s: int | None, after_s: float, is_broken: bool
) -> None:
    script = TraceScript(producer_expiration_us=None if expiration_s is None else expiration_s * 1_000_000)
    repeat(script, after_s)
    assert ("S26" in script.broken()) is is_broken


def test_a_batch_behind_a_younger_one_is_judged_by_that_one() -> None:
    """r0 is old, but the producer has not been silent: r1 came just before."""
    script = TraceScript(producer_expiration_us=5_000_000)
    script.send("r0")
    script.append("b1", 0, "r0", producer=FIRST)
    script.at(9).send("r1")
    script.request("r1", producer_id=7)
    script.append("b1", 1, "r1", producer=SECOND)
    script.at(10).append("b1", 2, "r0", producer=FIRST)
    assert "S26" in script.broken()


def test_an_operator_may_let_brokers_forget_sooner() -> None:
    script = TraceScript()
    shorten(script, 5)
    repeat(script, 6)
    assert "S26" not in script.broken()


@pytest.mark.parametrize(
    ("expiration_s", "apart_s", "is_broken"),
    [
        pytest.param(5, 4, False, id="forgotten"),
        pytest.param(5, 3, True, id="too little"),
        pytest.param(None, 24 * 3600, False, id="a day"),
        pytest.param(None, 60, True, id="far less than a day"),
    ],
)
def test_a_broker_whose_clock_was_moved_may_have_forgotten_a_producer_before_its_time(
    expiration_s: int | None, apart_s: int, is_broken: bool
) -> None:
    script = TraceScript(producer_expiration_us=None if expiration_s is None else expiration_s * 1_000_000)
    script.checker.cores = FakeProbe(clocks_apart=apart_s * 1_000_000)
    repeat(script, 1)
    assert ("S26" in script.broken()) is is_broken


@pytest.mark.parametrize(("after_s", "is_broken"), [(5, True), (23 * 3600, True), (25 * 3600, False)])
def test_on_the_second_day_of_a_run_a_producer_is_known_that_was_not_silent(after_s: float, is_broken: bool) -> None:
    script = TraceScript()
    script.at(26 * 3600)
    repeat(script, 26 * 3600 + after_s)
    assert ("S26" in script.broken()) is is_broken


A_DAY_AND_AN_HOUR_S = 25 * 3600


@pytest.mark.parametrize(
    ("expiration", "jump"),
    [
        pytest.param("producer.id.expiration.ms: 2000, ", "", id="soon"),
        pytest.param("", f"- {{at: 7s, bump_clock: {{brokers: b1, by: {A_DAY_AND_AN_HOUR_S}s}}}}", id="by its clock"),
        pytest.param(
            "", f"- {{at: 7s, bump_clock: {{brokers: b1, by: {A_DAY_AND_AN_HOUR_S}s}}, for: 1s}}", id="for a moment"
        ),
    ],
)
def test_a_retry_after_that_time_is_a_duplicate_and_no_bug(expiration: str, jump: str) -> None:
    text = f"""\
schema: 1
id: forgotten
title: A producer is forgotten before it tries again
duration: 40s
profile: kafka-4.1
cluster:
  brokers: {{b1: {{}}, b2: {{}}, b3: {{}}}}
  config: {{{expiration}producer.id.expiration.check.interval.ms: 500}}
topics:
  t: {{partitions: {{0: [b1, b2, b3]}}, config: {{min.insync.replicas: 2}}}}
workloads:
  p1: {{kind: producer, topic: t, config: {{request.timeout.ms: 6000, delivery.timeout.ms: 30000}}}}
timeline:
  - {{at: 5s, produce: {{from: p1, count: 1}}}}
  - {{at: 6s, hold: {{from: b1, to: p1, api: Produce}}, for: 10s}}
  - {{at: 6.5s, produce: {{from: p1, count: 1}}}}
  {jump}
"""
    result = run_scenario(load_text(text, "test.yaml").scenario, runs_dir=None)
    assert (result.verdict.kinds, result.broken) == (("duplicated",), ())


# ------------------------------------------------------------------------------------------------------ deleted records


class DeletedScript(TraceScript):
    """b1 and b2 have r0 and r1 of producer 7, then r2 of no idempotent producer."""

    def __init__(self, profile: str = "kafka-4.1") -> None:
        super().__init__(rules=PROFILES[profile])
        self.send("r0", "r1", "r2")
        for node in ("b1", "b2"):
            self.append(node, 0, "r0", producer=FIRST)
            self.append(node, 1, "r1", producer=SECOND)
            self.append(node, 2, "r2")

    def expire(self, start: int, *nodes: str) -> None:
        for node in nodes:
            self.state(
                trace.RecordsExpired, node=node, log_start_offset=start, size_bytes=100, cause=RetentionCause.TIME
            )

    def restart(self, node: str, start: int, *, end: int = 3, clean: bool = False) -> None:
        self.stop(node, "stop" if clean else "kill")
        self.start(node)
        self.recover(node, end, start=start, clean=clean)

    def is_broken(self) -> bool:
        return "S26" in self.broken()


@pytest.mark.parametrize(
    ("start", "restarts", "clean", "profile", "is_broken"),
    [
        pytest.param(3, True, False, "kafka-4.1", False, id="killed, with an empty log"),
        pytest.param(3, True, True, "kafka-4.1", False, id="stopped, with an empty log"),
        pytest.param(2, True, False, "kafka-4.1", False, id="killed, with a later record"),
        pytest.param(2, True, True, "kafka-4.1", True, id="stopped: a snapshot above the start of the log"),
        pytest.param(1, True, False, "kafka-4.1", True, id="its last record is left"),
        pytest.param(3, False, False, "kafka-4.1", True, id="a running broker remembers"),
        pytest.param(3, True, False, "kafka-2.7", False, id="since KIP-360"),
        pytest.param(3, True, False, "kafka-2.1", True, id="before KIP-360 it begins at 0"),
    ],
)
def test_a_log_that_is_opened_without_the_records_of_a_producer_forgets_it(
    start: int, restarts: bool, clean: bool, profile: str, is_broken: bool
) -> None:
    script = DeletedScript(profile)
    script.expire(start, "b1")
    if restarts:
        script.restart("b1", start, clean=clean)
    script.append("b1", 3, "r1", producer=SECOND)
    assert script.is_broken() is is_broken


def test_a_producer_that_began_again_is_known_again() -> None:
    script = DeletedScript()
    script.expire(3, "b1")
    script.restart("b1", 3)
    script.append("b1", 3, "r1", producer=SECOND)
    script.append("b1", 4, "r1", producer=SECOND)
    assert script.is_broken()


@pytest.mark.parametrize(
    ("begins_anew", "is_broken"), [pytest.param(True, False, id="forgotten"), pytest.param(False, True, id="known")]
)
def test_a_follower_that_knows_a_producer_takes_what_its_leader_took(begins_anew: bool, is_broken: bool) -> None:
    script = DeletedScript()
    script.expire(3, "b1", "b2")
    if begins_anew:
        script.restart("b1", 3)
        script.append("b1", 3, "r1", producer=SECOND)
    script.append("b2", 3, "r1", producer=SECOND)
    assert script.is_broken() is is_broken


def test_a_leader_that_began_behind_a_producer_lets_it_begin_anywhere() -> None:
    """b3 is a new replica, which copied nothing of the producer. b2 still knows it."""
    script = DeletedScript()
    script.expire(3, "b1", "b2")
    script.truncate("b3", 3, hw=3)
    script.fail_over("b3", "b2", "b3")
    for node in ("b3", "b2"):
        script.append(node, 3, "r1", producer=SECOND)
    assert not script.is_broken()


@pytest.mark.parametrize(
    ("start", "snapshot", "is_broken"),
    [
        pytest.param(2, None, False, id="no snapshot"),
        pytest.param(2, 3, True, id="a snapshot that is left"),
        pytest.param(2, 4, False, id="a snapshot that was cut off"),
        pytest.param(1, None, True, id="its last record is left"),
    ],
)
def test_a_log_that_is_cut_forgets_the_producers_whose_records_were_deleted(
    start: int, snapshot: int | None, is_broken: bool
) -> None:
    """snapshot: where the log of b2 ended when its broker was shut down in order and started again"""
    script = DeletedScript()
    for end, name in ((3, "r3"), (4, "r4")):
        if snapshot == end:
            script.restart("b2", 0, end=end, clean=True)
        script.append("b2", end, name)
    script.expire(start, "b2")
    script.truncate("b2", 3)
    script.leads("b2", 1)
    script.append("b2", 3, "r1", producer=SECOND)
    assert script.is_broken() is is_broken


def retention(*steps: str) -> str:
    """A record is appended at 6.5 s, its answer is held, and retention removes it before it is sent again at 12.5 s."""
    lines = "".join(f"  - {step}\n" for step in steps)
    return f"""\
schema: 1
id: deleted
title: A producer tries again after retention
duration: 40s
profile: kafka-4.1
cluster:
  brokers: {{b1: {{}}, b2: {{}}, b3: {{}}}}
  config: {{log.retention.check.interval.ms: 1000}}
topics:
  t: {{partitions: {{0: [b1]}}, config: {{retention.ms: 2000}}}}
workloads:
  p1: {{kind: producer, topic: t, config: {{request.timeout.ms: 6000, delivery.timeout.ms: 30000}}}}
timeline:
  - {{at: 5s, produce: {{from: p1, count: 1}}}}
  - {{at: 6s, hold: {{from: b1, to: p1, api: Produce}}, for: 10s}}
  - {{at: 6.5s, produce: {{from: p1, count: 1}}}}
{lines}"""


@pytest.mark.parametrize(
    ("steps", "appended"),
    [
        pytest.param((), 1, id="known"),
        pytest.param(("{at: 11s, restart: b1}",), 2, id="forgotten"),
    ],
)
def test_a_retry_is_appended_again_by_a_leader_that_was_started_again_with_an_empty_log(
    steps: tuple[str, ...], appended: int
) -> None:
    result = run_scenario(load_text(retention(*steps), "test.yaml").scenario, runs_dir=None, keep_rows=True)
    batches = [row.event for row in result.rows if isinstance(row.event, trace.BatchAppended)]
    assert [batch.base_sequence for batch in batches if batch.topic == "t"] == [0, *[1] * appended]
    assert result.broken == ()

"""The invariants of the end: conditions that must hold once a cluster is at rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from fake_probe import FakeProbe
from trace_script import TraceScript

from controller.inputs import UnregisterBroker
from replica.causes import PlacementCause, TransactionCause
from replica.rules import PROFILES
from replica.trace import events as trace
from scenarios.language.parse.loading import load_text
from scenarios.run.controller_calls import ControllerCalls
from scenarios.run.runner import ScenarioRun, run_scenario
from scenarios.run.worlds import simulated

Story = Callable[[TraceScript], None]


def rest(script: TraceScript, *, seconds: float = 100) -> None:
    script.learn("b2", 1)
    script.learn("b3", 1)
    script.at(seconds)
    script.find("b1", "r0")


def test_a_quiet_end_with_everything_in_place_is_fine() -> None:
    script = TraceScript()
    script.replicate("r0")
    rest(script)
    assert script.broken() == []


def l1(script: TraceScript) -> None:
    script.emit(trace.BrokerRegistered(node="c1", broker="b2", broker_epoch=9))


def l2(script: TraceScript) -> None:
    script.propose(["b1", "b2"])
    script.commit_isr("b1", "b2")


def l3(script: TraceScript) -> None:
    script.append("b1", 1, "r1")


def l3_follower_hw(script: TraceScript) -> None:
    """Its leader moves the high watermark, and no follower hears of it."""
    script.replicate("r1")


def l4(script: TraceScript) -> None:
    script.send("r7")


def l5(script: TraceScript) -> None:
    script.checker.probe(FakeProbe(metadata=(9, {"b1": 8})))


@pytest.mark.parametrize(
    ("name", "story"), [("L1", l1), ("L2", l2), ("L3", l3), ("L3 follower-hw", l3_follower_hw), ("L4", l4), ("L5", l5)]
)
@pytest.mark.parametrize("disturbance", ["none", "cut in force", "throttle in force", "just now", "broker down"])
def test_liveness_is_judged_only_at_rest(name: str, story: Story, disturbance: str) -> None:
    script = TraceScript()
    script.replicate("r0")
    story(script)
    if disturbance.endswith(" in force"):
        verb = disturbance.removesuffix(" in force")
        script.emit(trace.FaultBegan(fault=f"{verb}-1", verb=verb, targets=("b1",), effect=verb))
    if disturbance == "broker down":
        script.stop("b3")
    rest(script, seconds=30 if disturbance == "just now" else 100)
    broken = script.broken()
    assert (name in broken) is (disturbance == "none")


@pytest.mark.parametrize(("written", "broken"), [("long ago", ["L5"]), ("just now", [])])
def test_metadata_that_was_written_just_now_brokers_need_not_know(written: str, broken: list[str]) -> None:
    """Any client may write some: rules, quotas, users."""
    script = TraceScript()
    script.replicate("r0")
    script.checker.probe(FakeProbe(metadata=(9 if written == "long ago" else 8, {"b1": 8})))
    rest(script)
    script.checker.probe(FakeProbe(metadata=(9, {"b1": 8})))
    assert script.broken() == broken


@pytest.mark.parametrize(("elr", "name"), [((), "L2 cleared-elr"), (("b2",), "L2")])
def test_a_partition_whose_elr_was_cleared_while_nobody_was_in_sync_is_a_case_of_its_own(
    elr: tuple[str, ...], name: str
) -> None:
    """The replicas are back, and none of them may lead."""
    script = TraceScript()
    script.replicate("r0")
    script.go_offline()
    script.commit_isr(previous=("b1",))
    script.commit_elr("b1", "b2")
    script.commit_elr(*elr)
    rest(script)
    assert script.broken()[-1] == name  # The ELR's members were never fenced: that is found, too.
    *_, violation = script.checker.violations
    assert violation.event.promised is (name == "L2")


@pytest.mark.parametrize(
    ("diverged", "name"), [(["b2", "b3"], "L3 untaken-hw"), (["b2"], "L3 follower-hw"), ([], "L3 follower-hw")]
)
def test_what_a_follower_does_not_learn_because_it_was_told_to_truncate_is_a_case_of_its_own(
    diverged: list[str], name: str
) -> None:
    """The answer holds the high watermark, too, which is not taken from it and not sent again."""
    script = TraceScript()
    script.replicate("r0", "r1")
    script.learn("b2", 1)
    script.learn("b3", 1)
    for follower in diverged:
        script.state(trace.DivergenceFound, node="b1", peer=follower, offset=2, fetch_offset=3, last_fetched_epoch=0)
    script.at(100)
    for node in script.brokers:
        script.find(node, "r0", "r1")
    assert script.broken() == [name]
    (violation,) = script.checker.violations
    assert violation.event.promised is (name == "L3 follower-hw")


@pytest.mark.parametrize(
    ("leaders", "name"),
    [(["b1"], "L3 untaken-hw"), ([None, "b1"], "L3 follower-hw")],
    ids=["the same leader as before", "after no leader"],
)
def test_what_a_follower_does_not_learn_because_it_had_asked_in_an_earlier_epoch_is_such_a_case(
    leaders: list[str | None], name: str
) -> None:
    script = TraceScript()
    script.replicate("r0", "r1")
    for follower in ("b2", "b3"):
        script.learn(follower, 1)
        for epoch, leader in enumerate(leaders, start=1):
            script.follows(follower, leader, epoch)
    script.at(100)
    for node in script.brokers:
        script.find(node, "r0", "r1")
    assert script.broken() == [name]


@pytest.mark.parametrize(("is_told", "broken"), [(False, ["L4 unaware-leader"]), (True, ["L4"])])
@pytest.mark.parametrize(("profile", "is_mended"), [("kafka-2.0", False), ("kafka-2.7", True)])
def test_only_a_leader_that_does_not_know_that_it_leads_explains_an_answer_that_never_comes(
    is_told: bool, broken: list[str], profile: str, is_mended: bool
) -> None:
    """KAFKA-1120: it is back before its controller misses it, and no one tells it. KIP-380 mended that (2.2)."""
    script = TraceScript(rules=PROFILES[profile])
    script.replicate("r0")
    script.send("r7")
    script.stop("b1")
    script.start("b1")
    script.recover("b1", 1, hw=1)
    if is_told:
        script.leads("b1", 0)
    rest(script)
    assert script.broken() == broken
    (violation,) = script.checker.violations
    assert violation.event.promised is (is_told or is_mended)


@pytest.mark.parametrize(
    ("acks", "isr", "broken"),
    [(-1, ["b1"], ["L2"]), (1, ["b1"], ["L2", "L4"]), (-1, ["b1", "b2"], ["L2", "L4"])],
)
def test_a_record_that_cannot_be_written_for_want_of_replicas_is_no_second_finding(
    acks: int, isr: list[str], broken: list[str]
) -> None:
    """min.insync.replicas is 2: the producer gets a retriable error, and no other answer before it gives up."""
    script = TraceScript()
    script.replicate("r0")
    script.propose(isr)
    script.commit_isr(*isr)
    script.send("r7", acks=acks)
    rest(script)
    assert script.broken() == broken


@pytest.mark.parametrize(
    ("state", "isr", "broken"),
    [
        pytest.param("PrepareCommit", ("b1",), ["L2"], id="its marker cannot be written"),
        pytest.param("PrepareAbort", ("b1",), ["L2"], id="nor that of an abort"),
        pytest.param("PrepareCommit", ("b1", "b2"), ["L2", "L4"], id="its marker can be written"),
        pytest.param("CompleteCommit", ("b1",), ["L2", "L4"], id="it has its markers"),
    ],
)
def test_a_producer_waits_while_its_former_transaction_cannot_be_marked(
    state: str, isr: tuple[str, ...], broken: list[str]
) -> None:
    """Search found it in era 3.9: an unregistered broker left one partition below min.insync.replicas for good."""
    script = TraceScript()
    script.replicate("r0")
    script.emit(
        trace.PartitionCreated(
            node="c1", topic="u", partition=0, broker="b1", replicas=script.brokers, isr=isr, min_isr=2,
            leader_epoch=0, partition_epoch=0, cause=PlacementCause.ASSIGNED,
        )
    )  # fmt: skip
    transaction: dict[str, Any] = {"transactional_id": "tx", "producer_id": 4, "producer_epoch": 0}
    script.emit(trace.TransactionBegan(client="p1", number=2, **transaction))
    script.emit(
        trace.TransactionStateChanged(
            node="b1", previous_state="Ongoing", state=state, partitions=("u-0",), fences=False,
            cause=TransactionCause.COMMIT, **transaction,
        )
    )  # fmt: skip
    script.send("r7", acks=-1)
    rest(script)
    assert script.broken() == broken


@pytest.mark.parametrize(("idle_s", "is_judged"), [(1, False), (5, True)])
def test_a_producer_that_still_works_off_its_backlog_is_not_at_rest(idle_s: int, is_judged: bool) -> None:
    script = TraceScript()
    script.replicate("r0")
    l3(script)
    script.send("r7", "r8")
    script.at(100 - idle_s)
    script.hand_over("r8")
    rest(script)
    assert ({"L3", "L4"} <= set(script.broken())) is is_judged
    assert bool({"L3", "L4"} & set(script.broken())) is is_judged


@pytest.mark.parametrize(("idle_s", "is_judged"), [(1, False), (5, True)])
def test_a_leader_that_has_just_appended_is_not_at_rest(idle_s: int, is_judged: bool) -> None:
    """There may be no trace of a live client's records."""
    script = TraceScript()
    script.replicate("r0")
    script.at(100 - idle_s)
    l3(script)
    rest(script)
    assert ("L3" in script.broken()) is is_judged


@pytest.mark.parametrize(
    ("errors", "is_judged"),
    [
        (("OUT_OF_ORDER_SEQUENCE_NUMBER",), False),
        (("OUT_OF_ORDER_SEQUENCE_NUMBER", "NOT_LEADER_OR_FOLLOWER"), True),
    ],
)
def test_a_batch_that_is_out_of_order_has_no_answer_before_its_delivery_timeout(
    errors: tuple[str, ...], is_judged: bool
) -> None:
    """A leader without state of its producer took later batches first: search found it in era 4.1."""
    script = TraceScript()
    script.replicate("r0")
    script.send("r7", "r8")
    for error in errors:
        script.refuse("r7", error)
    rest(script)
    assert script.broken() == (["L4"] if is_judged else [])


@pytest.mark.parametrize(
    ("client", "tries_again", "is_judged"),
    [("client/kgo", False, False), ("client/kgo", True, True), ("p1", False, True)],
)
def test_a_client_from_outside_that_hangs_up_may_have_gone_for_good(
    client: str, tries_again: bool, is_judged: bool
) -> None:
    script = TraceScript()
    script.replicate("r0")
    script.send("r7", client=client)
    script.refuse("r7", "NETWORK_EXCEPTION", client=client)
    if tries_again:
        script.request("r7", attempt=2, client=client)
    rest(script)
    assert script.broken() == (["L4"] if is_judged else [])


ONCE, AT_THE_END, TO_THE_END, STOPPED = (5,), (95,), range(5, 100), range(5, 60)


@pytest.mark.parametrize(
    ("client", "error", "by", "at_s", "is_judged"),
    [
        pytest.param("client/kgo", "NOT_ENOUGH_REPLICAS", "b1", ONCE, False, id="gave up"),
        pytest.param("client/kgo", "NOT_ENOUGH_REPLICAS", "b1", AT_THE_END, False, id="one request, and gone"),
        pytest.param("client/kgo", "REQUEST_TIMED_OUT", "b1", STOPPED, False, id="gave up after a minute"),
        pytest.param("client/kgo", "NOT_ENOUGH_REPLICAS", "b1", TO_THE_END, True, id="refused for ever"),
        pytest.param("client/kgo", "NOT_LEADER_OR_FOLLOWER", "b1", TO_THE_END, True, id="refused by the leader"),
        pytest.param("client/kgo", "NOT_LEADER_OR_FOLLOWER", "b2", TO_THE_END, False, id="asks the wrong broker"),
        pytest.param("client/kgo", "CORRUPT_MESSAGE", "b1", TO_THE_END, False, id="sends what is damaged"),
        pytest.param("p1", "NOT_ENOUGH_REPLICAS", "b1", ONCE, True, id="ours says when it gives up"),
    ],
)
def test_a_client_from_outside_that_was_told_a_retriable_error_may_have_given_up(
    client: str, error: str, by: str, at_s: Sequence[int], is_judged: bool
) -> None:
    script = TraceScript()
    script.replicate("r0")
    script.learn("b2", 1)
    script.learn("b3", 1)
    script.at(at_s[0] - 1)
    script.send("r7", client=client)
    for attempt, second in enumerate(at_s, start=1):
        script.at(second)
        script.request("r7", by, attempt=attempt, client=client)
        script.refuse("r7", error, by=by, client=client)
    script.at(100)
    script.find("b1", "r0")
    assert script.broken() == (["L4"] if is_judged else [])


def test_a_client_from_outside_that_is_taken_from_now_and_then_is_not_refused_for_ever() -> None:
    script = TraceScript()
    script.replicate("r0")
    script.send("r7", client="client/kgo")
    for second in range(5, 100):
        script.at(second)
        script.refuse("r7", "NOT_ENOUGH_REPLICAS", client="client/kgo")
        if second == 92:
            script.send("r8", client="client/kgo")
            script.ack("r8", 0, client="client/kgo")
    rest(script)
    assert script.broken() == []


@pytest.mark.parametrize(
    ("key", "topic", "is_taken_back", "broken"),
    [
        ("follower.replication.throttled.replicas", "t", False, []),
        ("follower.replication.throttled.replicas", "t", True, ["L2"]),
        ("follower.replication.throttled.replicas", "another", False, ["L2"]),
        ("segment.bytes", "t", False, ["L2"]),
    ],
)
def test_replicas_that_an_operator_throttles_may_take_as_long_as_they_need(
    key: str, topic: str, is_taken_back: bool, broken: list[str]
) -> None:
    """The throttle of a reassignment stays when that is complete."""

    def rate(value: str | None) -> trace.ConfigAltered:
        name = "follower.replication.throttled.rate"
        return trace.ConfigAltered(node="c1", broker="b3", key=name, value=value)

    script = TraceScript()
    script.replicate("r0")
    script.emit(rate("1000"))
    script.emit(trace.ConfigAltered(node="c1", topic=topic, key=key, value="*"))
    script.commit_isr("b1", "b2")
    if is_taken_back:
        script.emit(rate(None))
    rest(script)
    assert script.broken() == broken


QUIET_BUT = """\
schema: 1
id: quiet-but
title: Settings that make a quiet cluster wait
duration: 110s
profile: kafka-PROFILE
cluster: {controllers: [c1], brokers: {b1: {}, b2: {}}, config: {CONFIG}}
topics: {t: {partitions: {0: [b1, b2]}}}
workloads:
  p1: {kind: producer, topic: t, config: {acks: all, delivery.timeout.ms: 600000}, rate: 5/s, start: 1s, stop: STOP}
timeline: [STEP]
"""


@pytest.mark.soak
@pytest.mark.parametrize(
    ("profile", "stop", "config", "step"),
    [
        pytest.param(
            "4.1",
            "20s",
            "",
            "{at: 5s, set_quota: {client: p1, quota: {producer_byte_rate: 1}}}",
            id="quota of a client",
        ),
        pytest.param(
            "4.1",
            "105s",
            "replica.fetch.wait.max.ms: 15000, replica.lag.time.max.ms: 60000",
            "",
            id="fetches that wait",
        ),
        pytest.param(
            "3.5",
            "20s",
            "",
            "{at: 5s, set_config: {brokers: b1, config: {min.insync.replicas: 3}}}",
            id="of one broker",
        ),
    ],
)
def test_settings_may_have_a_quiet_cluster_wait(profile: str, stop: str, config: str, step: str) -> None:
    text = QUIET_BUT.replace("PROFILE", profile).replace("STOP", stop).replace("CONFIG", config).replace("STEP", step)
    assert not run_scenario(load_text(text, "quiet.yaml").scenario, runs_dir=None).broken


PAUSED = """\
schema: 1
id: paused-client
title: A client that is paused learns nothing
duration: 90s
profile: kafka-4.1
cluster: {controllers: [c1], brokers: {b1: {}, b2: {}}}
topics: {t: {partitions: {0: [b1, b2]}}}
workloads: {p1: {kind: producer, topic: t, rate: 200/s, start: 1s, stop: 60s}}
timeline: [{at: 5s, pause: p1}]
"""


@pytest.mark.soak
def test_a_client_that_is_paused_to_the_end_learns_nothing() -> None:
    assert not run_scenario(load_text(PAUSED, "paused.yaml").scenario, runs_dir=None).broken


@pytest.mark.parametrize(
    ("is_unregistered", "registers", "broken"),
    [
        pytest.param(True, False, [], id="for good"),
        pytest.param(False, False, ["L1", "L2"], id="by its session"),
        pytest.param(True, True, ["L1", "L2"], id="until it comes back"),
    ],
)
def test_a_broker_that_an_operator_has_unregistered_stays_out(
    is_unregistered: bool, registers: bool, broken: list[str]
) -> None:
    script = TraceScript()
    script.replicate("r0")
    script.fence("b2")
    script.commit_isr("b1", "b3")
    if is_unregistered:
        script.unregister("b2")
    if registers:
        script.register("b2")
    rest(script)
    assert script.broken() == broken


@pytest.mark.parametrize(
    ("era", "unregistered", "isr", "broken"),
    [
        pytest.param("kafka-3.9", "b1", ("b1",), [], id="the last member"),
        pytest.param("kafka-3.9", "b2", ("b1",), ["L2"], id="another one"),
        pytest.param("kafka-4.1", "b2", (), [], id="nobody is in sync, and nobody else may lead"),
    ],
)
def test_a_partition_may_lack_a_leader_if_an_operator_has_unregistered_the_last_that_may_lead(
    era: str, unregistered: str, isr: tuple[str, ...], broken: list[str]
) -> None:
    script = TraceScript(rules=PROFILES[era])
    script.replicate("r0")
    script.fence(unregistered)
    script.unregister(unregistered)
    script.go_offline(*isr)
    rest(script)
    assert script.broken() == broken


def test_a_broker_that_runs_and_is_unregistered_is_no_bug(tmp_path: Path) -> None:
    """The rest of the cluster goes on without it."""
    text = """\
schema: 1
id: forgotten-broker
title: A broker that runs is unregistered
duration: 100s
profile: kafka-4.1
cluster: {brokers: {b1: {}, b2: {}, b3: {}}}
topics:
  t: {partitions: {0: [b1, b2, b3]}, config: {min.insync.replicas: 2}}
  alone: {partitions: {0: [b2]}}
workloads:
  p1: {kind: producer, topic: t}
timeline:
  - {at: 5s, produce: {from: p1, count: 3}}
  - {at: 30s, produce: {from: p1, count: 3}}
"""

    class Unregisters(ScenarioRun):
        def begin(self) -> None:
            super().begin()
            self.cluster.time.at(20_000_000, self._unregister)

        def _unregister(self) -> None:
            calls = ControllerCalls(self.cluster)
            calls.operate(lambda now_us: UnregisterBroker(now_us=now_us, broker_id=2), lambda reply: None)

    run = Unregisters(load_text(text, "test.yaml").scenario, simulated, tmp_path)
    run.execute()
    assert run.view.nodes["b2"].unregistered
    assert run.invariants.violations == []

"""Runs compared: the same, noise, or a difference with its moment and both values."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenarios.agree.comparison import DIFFERS, NOISE, SAME, compare
from scenarios.agree.difference import DRAWN, RETRIES, RUN_ENDED, TIE, VARIES, WorldDifference
from scenarios.agree.facts import FinalRecord, LogCut, PartitionStanding, ReplicaEnd, RunFacts, Stood, facts_of
from scenarios.language.parse.catalogue import find_scenario
from scenarios.language.parse.loading import load_file
from scenarios.run.runner import run_scenario

SLACK_US = 2_000_000


@cache
def played(name: str, *settings: str) -> RunFacts:
    result = run_scenario(load_file(find_scenario(name), settings).scenario, runs_dir=None, keep_rows=True)
    return facts_of(result.rows)


def differences(one: RunFacts, other: RunFacts) -> list[WorldDifference]:
    return list(compare([one], [other], slack_us=SLACK_US).differences)


@pytest.mark.parametrize("name", ["acks1-leader-kill", "elr-exhausted"])
def test_a_scenario_agrees_with_itself(name: str) -> None:
    agreement = compare([played(name)], [played(name)], slack_us=SLACK_US)
    assert agreement.verdict == SAME
    assert agreement.gaps and all(gap.by_us == 0 for gap in agreement.gaps)


@pytest.mark.soak
def test_another_seed_is_noise_where_it_decides_anything() -> None:
    one, other = played("rolling-restart-controlled"), played("rolling-restart-controlled", "seed=99")
    agreement = compare([one], [other], slack_us=SLACK_US)
    assert agreement.verdict == NOISE
    assert {difference.noise for difference in agreement.differences} <= {DRAWN, RETRIES}


def test_another_setting_differs_from_its_moment_on() -> None:
    """With unclean elections the partition has a leader again, and what b1 alone had is lost."""
    one, other = (
        played("unclean-election"),
        played("unclean-election", "topics.t.config.unclean.leader.election.enable=false"),
    )
    found = differences(one, other)
    standing = next(difference for difference in found if difference.where == "t-0")
    assert (standing.at_us, standing.noise) == (10_019_000, "")
    assert standing.ours == "10.019 s b2 in epoch 2, ISR b2"
    assert standing.theirs == "30.019 s b1 in epoch 2, ISR b1"
    lost = next(difference for difference in found if difference.what == "lost")
    assert (lost.ours != "none", lost.theirs) == (True, "none")


def test_settings_that_move_times_alone_are_shown_beside() -> None:
    """Half the session: the election comes earlier, and everything else is the same."""
    one = played("acks1-leader-kill")
    other = played("acks1-leader-kill", "cluster.config.broker.session.timeout.ms=4500")
    agreement = compare([one], [other], slack_us=SLACK_US)
    assert agreement.verdict == SAME
    gap = agreement.largest_gap
    assert gap is not None and gap.by_us == -4_500_000


# --------------------------------------------------------------------------------------------------- facts by hand


def facts(**values: Any) -> RunFacts:
    """A run of 60 s in which b1 leads and r0..r2 are everywhere."""
    everywhere = [FinalRecord(f"r{number}", 0) for number in range(3)]
    places = [("t-0", node) for node in ("b1", "b2", "b3")]
    return replace(
        RunFacts(
            end_us=60_000_000,
            standings={"t-0": [Stood(0, PartitionStanding("b1", 0, ("b1", "b2", "b3"), ()))]},
            records={"acked": frozenset(("r0", "r1", "r2"))},
            moments_us={"r0": 1_000_000, "r1": 2_000_000, "r2": 3_000_000},
            sources={"r0": "p1", "r1": "p1", "r2": "p2"},
            partitions={"r0": "t-0", "r1": "t-0", "r2": "t-0"},
            errors={"p1": {"NOT_LEADER_OR_FOLLOWER": 8}},
            logs=dict.fromkeys(places, everywhere),
            ends=dict.fromkeys(places, ReplicaEnd(3, 3)),
            epochs=dict.fromkeys(places, ((0, 0),)),
        ),
        **values,
    )


def logs_of_b1(*entries: FinalRecord) -> dict[tuple[str, str], list[FinalRecord]]:
    return {**facts().logs, ("t-0", "b1"): list(entries)}


def one_of(ours: RunFacts, theirs: RunFacts) -> WorldDifference:
    (found,) = differences(ours, theirs)
    return found


def test_each_kind_of_fact_has_its_difference() -> None:
    unacked = one_of(facts(), facts(records={"acked": frozenset(("r0", "r2"))}))
    assert (unacked.what, unacked.at_us, unacked.ours, unacked.theirs) == ("acked", 2_000_000, "r1", "none")
    shorter = one_of(facts(), facts(logs=logs_of_b1(FinalRecord("r0", 0), FinalRecord("r1", 1), FinalRecord("r2", 0))))
    assert (shorter.what, shorter.where) == ("final log", "b1 t-0")
    assert (shorter.ours, shorter.theirs) == ("r1 of epoch 0", "r1 of epoch 1")
    behind = one_of(facts(), facts(ends={**facts().ends, ("t-0", "b2"): ReplicaEnd(3, 2)}))
    assert (behind.where, behind.ours, behind.theirs) == ("b2 t-0", "LEO 3, HW 3", "LEO 3, HW 2")
    cut = one_of(facts(), facts(cuts={("t-0", "b3"): [LogCut(30_000_000, 5, 3)]}))
    assert (cut.where, cut.at_us, cut.ours, cut.theirs) == ("b3 t-0", 30_000_000, "none", "5 to 3")
    epochs = one_of(facts(), facts(epochs={**facts().epochs, ("t-0", "b1"): ((0, 0), (1, 3))}))
    assert (epochs.ours, epochs.theirs) == ("0 from offset 0", "0 from offset 0 and 1 from offset 3")
    error = one_of(facts(), facts(errors={"p1": {"NOT_LEADER_OR_FOLLOWER": 8, "REQUEST_TIMED_OUT": 1}}))
    assert (error.what, error.where, error.ours, error.theirs) == ("REQUEST_TIMED_OUT", "p1", "0 times", "1 time")
    assert not any(one.noise for one in (unacked, shorter, behind, cut, epochs, error))


def test_replicas_that_differ_alike_are_one_difference() -> None:
    places = facts().logs
    found = one_of(facts(), facts(ends=dict.fromkeys(places, ReplicaEnd(3, 2))))
    assert found.where == "b1, b2, b3 t-0"


def test_what_no_rule_decides_is_noise() -> None:
    other_client_first = logs_of_b1(FinalRecord("r0", 0), FinalRecord("r2", 0), FinalRecord("r1", 0))
    assert one_of(facts(), facts(logs=other_client_first)).noise == TIE
    same_client_reversed = logs_of_b1(FinalRecord("r1", 0), FinalRecord("r0", 0), FinalRecord("r2", 0))
    assert one_of(facts(), facts(logs=same_client_reversed)).noise == ""
    assert one_of(facts(), facts(errors={"p1": {"NOT_LEADER_OR_FOLLOWER": 9}})).noise == RETRIES
    assert one_of(facts(), facts(errors={"p1": {"NOT_LEADER_OR_FOLLOWER": 80}})).noise == ""
    last = [*facts().standings["t-0"], Stood(59_000_000, PartitionStanding("b1", 0, ("b1", "b2"), ()))]
    assert one_of(facts(), facts(standings={"t-0": last})).noise == RUN_ENDED
    earlier = [last[0], last[1]._replace(at_us=57_000_000)]
    assert one_of(facts(), facts(standings={"t-0": earlier})).noise == ""


def test_an_output_has_its_order_from_the_partition_of_its_input() -> None:
    """Two partitions that a member reads, or two members of a group, are as two clients are."""
    sources = played("group-rebalance-waits").sources
    assert [sources[name] for name in ("r0", "r1", "tr0", "tr1", "tr2")] == ["p1", "p1", "t-0", "t-1", "t-0"]


def test_records_sent_to_another_partition_say_nothing_about_its_log() -> None:
    gone = {place: log[:2] for place, log in facts().logs.items()}
    theirs = facts(
        partitions={**facts().partitions, "r2": "t-1"}, logs=gone, ends=dict.fromkeys(gone, ReplicaEnd(2, 2))
    )
    assert one_of(facts(), theirs).noise == DRAWN


RECORDS = st.frozensets(st.sampled_from([f"r{number}" for number in range(6)]))


@given(st.lists(st.tuples(RECORDS, RECORDS), min_size=1, max_size=4))
def test_records_differ_where_every_repetition_says_so(
    repetitions: list[tuple[frozenset[str], frozenset[str]]],
) -> None:
    ours, theirs = ([facts(records={"lost": side}) for side in sides] for sides in zip(*repetitions, strict=True))
    found = compare(ours, theirs, slack_us=SLACK_US)
    always = [
        {name for side in sides for name in side if all(name in one for one in sides)}
        for sides in zip(*repetitions, strict=True)
    ]
    ever = [{name for side in sides for name in side} for sides in zip(*repetitions, strict=True)]
    if (always[0] - ever[1]) or (always[1] - ever[0]):
        assert found.verdict == DIFFERS
    else:
        assert found.verdict == (SAME if all(one == other for one, other in repetitions) else NOISE)
        assert all(one.noise == VARIES for one in found.differences)


def test_a_sequence_that_some_repetition_of_the_other_world_had_too_is_noise() -> None:
    begin = facts().standings["t-0"]
    shrunk = [*begin, Stood(20_000_000, PartitionStanding("b1", 0, ("b1", "b2"), ()))]
    calm, shrinks = facts(), facts(standings={"t-0": shrunk})
    assert compare([calm, calm], [shrinks, calm], slack_us=SLACK_US).verdict == NOISE
    assert compare([calm, calm], [shrinks, shrinks], slack_us=SLACK_US).verdict == DIFFERS

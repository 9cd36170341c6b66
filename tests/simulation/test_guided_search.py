"""A guided search: coverage comes from the trace alone, changes keep a promise, and processes change no finding."""

from __future__ import annotations

import random
from collections.abc import Generator, Sequence
from itertools import pairwise

import pytest

from replica.trace.events import LeaderElected, LogTruncated, TraceRow
from scenarios.language.parse.catalogue import find_scenario
from scenarios.language.parse.loading import load_file
from scenarios.process.pool import in_order
from scenarios.run.runner import run_scenario
from scenarios.search.coverage import Coverage, coverage_of, sentence_without_names, worth
from scenarios.search.guided import GENERATION_RUNS, Corpus, generations
from scenarios.search.mix import BATCH_SEEDS, mix_of
from scenarios.search.mutation import at_ms, faults_of, mutated
from scenarios.search.schedules import MENDED, Schedule, Tree
from scenarios.search.search import Found, SeedJob, schedule_of
from scenarios.search.times import CHAOS_BEGINS_MS, CHAOS_ENDS_MS, HEALED_MS
from tests.trace_builder import TraceBuilder

JOBS = [SeedJob(seed, "kafka-2.0", safe=False, swarm=True) for seed in range(1, 3 * GENERATION_RUNS + 1)]
LOSES_BYTES = ("power_off", "wipe", "fill_disk")


def test_what_a_run_reached_is_a_function_of_its_events() -> None:
    scenario = load_file(find_scenario("kip101-hw-truncation-loss")).scenario
    while_running = Coverage()
    result = run_scenario(scenario, runs_dir=None, keep_rows=True, watchers=(while_running,))
    reached = coverage_of(result.rows)
    assert reached == while_running.reached
    assert "state FETCHING -> TRUNCATING" in reached
    assert any(name.startswith("leads without committed records") for name in reached)
    assert any(name.startswith("branch log_truncated: ") and "| follower |" in name for name in reached)
    turns = [row.at_us // 1000 for row in result.rows if isinstance(row.event, LogTruncated | LeaderElected)]
    assert turns and set(turns) <= set(while_running.moments_ms)


@pytest.mark.parametrize(
    ("name", "reached"),
    [
        ("kafka-7128-early-join", "returns while its leader knows of as little as it has, 4"),
        ("kafka-7128-early-join", "proposed though it lacks what is committed, 4"),
        ("stale-fetch-across-epochs", "fetch counts that a log was cut for since, beyond its end by 8"),
        ("zk-version-stuck-isr", "fetch counts in another epoch, of a member of the ISR by 1"),
    ],
)
def test_what_is_one_step_from_a_loss_counts_much(name: str, reached: str) -> None:
    coverage = Coverage()
    run_scenario(load_file(find_scenario(name)).scenario, runs_dir=None, watchers=(coverage,), traced=False)
    assert reached in coverage.reached
    assert worth(reached) > 10 * worth("branch isr_proposed: b# wants b# in the ISR")
    assert worth("branch isr_proposed: b# wants b# in the ISR | leader | kill") == 0


@pytest.mark.parametrize("clean", [True, False])
def test_what_was_committed_before_an_unclean_election_counts_no_more(clean: bool) -> None:
    rows: list[TraceRow] = []
    script = TraceBuilder([rows.append])
    script.append("b1", 0, "r0")
    script.advance(1)
    script.elect("b2", "b2", clean=clean)
    script.leads("b2", 1)
    assert ("leads without committed records, 1" in coverage_of(rows)) is clean


@pytest.mark.parametrize(
    ("reason", "branch"),
    [
        ("b2 follows b1 in epoch 7 of t-0", "b# follows b# in epoch # of t#"),
        ("b1, b2 and b3 all hold the records below 12", "b# all hold the records below #"),
        ("b1 and b3 all hold the records below 7", "b# all hold the records below #"),
    ],
)
def test_a_branch_has_one_name_for_all_nodes_and_numbers(reason: str, branch: str) -> None:
    assert sentence_without_names(reason) == branch


def test_seeds_of_one_batch_have_one_mix() -> None:
    batches = [
        {mix_of(seed, "kafka-4.1", safe=True) for seed in range(first, first + BATCH_SEEDS)}
        for first in range(0, 20 * BATCH_SEEDS, BATCH_SEEDS)
    ]
    assert all(len(batch) == 1 for batch in batches)
    mixes = [mix for batch in batches for mix in batch]
    assert len(set(mixes)) > 15
    assert {mix.brokers for mix in mixes} >= {3, 4, 7}
    assert all(2 <= mix.min_isr <= mix.replication_factor <= mix.brokers for mix in mixes)
    tree = schedule_of(SeedJob(3, "kafka-4.1", safe=True, swarm=True)).tree
    assert len(tree["cluster"]["brokers"]) == mix_of(3, "kafka-4.1", safe=True).brokers


def test_a_changed_schedule_is_valid_and_a_safe_one_stays_safe() -> None:
    schedules = [schedule_of(SeedJob(seed, "kafka-2.0", safe=True, swarm=True)) for seed in range(1, 6)]
    danger = schedule_of(SeedJob(1, "kafka-2.0", safe=False, swarm=False))
    for number in range(30):
        rng = random.Random(number)
        parent = rng.choice(schedules)
        changed = mutated(rng, parent, danger, moments_ms=(5000, 39_999))
        changed.scenario()
        faults = faults_of(changed.tree)
        assert changed.safe and changed.tree != parent.tree
        assert all(CHAOS_BEGINS_MS <= at_ms(step) < HEALED_MS for step in faults)
        assert all(step in changed.tree["timeline"] for step in MENDED)
        for verb in LOSES_BYTES:
            count = [sum(verb in step for step in faults_of(one.tree)) for one in (parent, changed)]
            assert count[1] <= count[0]


def test_a_step_moves_to_a_turn_of_the_run() -> None:
    schedule = schedule_of(SeedJob(1, "kafka-4.1", safe=False))
    restart = {"at": "2000ms", "restart": "b1"}
    alone = Schedule({**schedule.tree, "timeline": [restart, *MENDED]}, safe=False)

    def near_12_s(moments_ms: tuple[int, ...]) -> list[bool]:
        changed = [mutated(random.Random(number), alone, alone, moments_ms) for number in range(24)]
        return [any(11_000 < at_ms(step) < 13_000 for step in faults_of(one.tree)) for one in changed]

    assert sum(near_12_s((12_000,))) > 5
    assert not any(near_12_s(()))


def test_a_spliced_schedule_has_steps_of_both() -> None:
    def only(*steps: Tree) -> Schedule:
        return Schedule({**tree, "timeline": [*steps, *MENDED]}, safe=False)

    tree = schedule_of(SeedJob(1, "kafka-4.1", safe=False)).tree
    early, late = (
        {"at": "2000ms", "kill": "b1", "as": "one"},
        {"at": f"{CHAOS_ENDS_MS - 1}ms", "pause": "b2", "as": "two"},
    )
    changed = [faults_of(mutated(random.Random(n), only(early), only(late)).tree) for n in range(40)]
    assert any(early in steps and late in steps for steps in changed)


def test_a_swarm_elects_leaders_while_single_links_fail() -> None:
    jobs = [SeedJob(seed, "kafka-4.1", safe=True, swarm=True) for seed in range(0, 20 * BATCH_SEEDS, BATCH_SEEDS)]
    for job in jobs:
        schedule = schedule_of(job)
        links = [step for step in schedule.tree["timeline"] if str(step.get("as", "")).startswith("trouble-0-link")]
        assert bool(links) == mix_of(job.seed, job.profile, safe=True).elections
        schedule.scenario()


def test_what_was_reached_once_is_changed_before_what_is_reached_always() -> None:
    corpus = Corpus()
    common, rare = Schedule({"seed": 1}, safe=False), Schedule({"seed": 2}, safe=False)
    corpus.take(Found(1, (), common, ("a", "b")))
    for _ in range(200):
        corpus.take(Found(1, (), common, ("a", "b")))
    corpus.take(Found(2, (), rare, ("a", "rare")))
    assert corpus.chosen(random.Random(1)).schedule is rare


def verbs_of(job: SeedJob) -> Found:
    """A run that is not played: it has reached the verbs of its schedule, each pair in its order."""
    schedule = schedule_of(job)
    verbs = [next(key for key in step if key not in ("at", "as", "for")) for step in faults_of(schedule.tree)]
    return Found(job.seed, (), schedule, tuple(f"{one} {other}" for one, other in pairwise(verbs)))


def test_all_brokers_are_down_before_everything_is_started() -> None:
    """Five of them, 2.5 s apart, from the last moment at which a trouble may begin."""
    schedule = schedule_of(SeedJob(21, "kafka-2.0", safe=False))
    kills = [at_ms(step) for step in schedule.tree["timeline"] if "kill" in step]
    assert len(kills) == 5 and max(kills) < HEALED_MS
    schedule.scenario()


def test_the_processes_change_nothing() -> None:
    def searched(processes: int) -> list[str]:
        def play(jobs: Sequence[SeedJob]) -> Generator[Found, None, None]:
            return in_order(verbs_of, jobs, processes)

        return [found.text for found in generations(JOBS, play)]

    alone = searched(1)
    assert alone == searched(3)
    changed = [text for text, job in zip(alone, JOBS, strict=True) if text != schedule_of(job).text]
    assert alone[:GENERATION_RUNS] == [schedule_of(job).text for job in JOBS[:GENERATION_RUNS]]
    assert len(changed) > GENERATION_RUNS // 2

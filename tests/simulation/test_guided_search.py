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
from scenarios.search.coverage import Coverage, Turn, coverage_of, sentence_without_names, worth
from scenarios.search.findings import Finding
from scenarios.search.guided import GENERATION_RUNS, Corpus, generations
from scenarios.search.mix import BATCH_SEEDS, mix_of
from scenarios.search.mutation import at_ms, faults_of, mutated
from scenarios.search.rows import found_of, play_run, run_of
from scenarios.search.schedules import MENDED, Schedule, Tree
from scenarios.search.search import Found, SeedJob, play_seed, schedule_of
from scenarios.search.strikes import strikes
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
    assert turns and set(turns) <= {turn.at_ms for turn in while_running.turns}


@pytest.mark.parametrize(
    ("name", "reached"),
    [
        ("kafka-7128-early-join", "returns while its leader knows of as little as it has, 4"),
        ("kafka-7128-early-join", "leads and knows of as little as one outside the ISR has, which lacks 4"),
        ("kafka-7128-early-join", "proposed though it lacks what is committed, 4"),
        ("kafka-7128-early-join", "joins though it lacks what is committed, 4"),
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
    assert any(turn.worth == worth(reached) for turn in coverage.turns)


def test_a_turn_near_a_loss_names_the_brokers_that_it_is_about() -> None:
    coverage = Coverage()
    scenario = load_file(find_scenario("kafka-7128-early-join")).scenario
    run_scenario(scenario, runs_dir=None, watchers=(coverage,), traced=False)
    joins = max(coverage.turns, key=lambda turn: (turn.worth, turn.at_ms))
    assert joins.partition == "t-0" and {"b2", "b3"} <= set(joins.nodes) and "b4" not in joins.nodes


@pytest.mark.parametrize("clean", [True, False])
def test_what_was_committed_before_an_unclean_election_counts_no_more(clean: bool) -> None:
    rows: list[TraceRow] = []
    script = TraceBuilder([rows.append])
    script.append("b1", 0, "r0")
    script.advance(1)
    script.elect("b2", "b2", clean=clean)
    script.leads("b2", 1)
    assert ("leads without committed records, 1" in coverage_of(rows)) is clean


def test_what_a_leader_lacked_counts_no_more_once_it_leads() -> None:
    """The power of all brokers fails, say: whoever leads then lacks it, and those who join it lack nothing."""
    rows: list[TraceRow] = []
    script = TraceBuilder([rows.append])
    script.append("b1", 0, "r0")
    script.advance(1)
    script.elect("b2", "b2")
    script.leads("b2", 1)
    script.elect("b3", "b3")
    script.leads("b3", 2)
    assert sum(turn.worth > 1 for turn in _turns(rows)) == 1


def _turns(rows: list[TraceRow]) -> list[Turn]:
    coverage = Coverage()
    for row in rows:
        coverage(row)
    return coverage.turns


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
        changed = mutated(rng, parent, danger, turns=(about(5000), about(39_999)))
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

    def near_12_s(turns: tuple[Turn, ...]) -> list[bool]:
        changed = [mutated(random.Random(number), alone, alone, turns) for number in range(24)]
        return [any(11_000 < at_ms(step) < 13_000 for step in faults_of(one.tree)) for one in changed]

    assert sum(near_12_s((about(12_000),))) > 5
    assert not any(near_12_s(()))


def about(at_ms: int, *nodes: str, partition: str = "t-0") -> Turn:
    return Turn(at_ms, partition, nodes or ("b1", "b2"), worth=64.0)


def test_strikes_hit_what_a_turn_was_about_when_it_was() -> None:
    tree = schedule_of(SeedJob(1, "kafka-4.1", safe=False)).tree
    struck = [strikes(random.Random(n), about(9000, "b2", "c1", "b3"), tree, safe=n % 2 == 0) for n in range(60)]
    steps = [step for steps in struck for step in steps]
    assert all(abs(at_ms(step) - 9000) <= 700 for step in steps)
    hit = [str(step) for step in steps if "elect" not in step]
    assert all("b2" in text or "b3" in text for text in hit) and not any("b1" in text or "c1" in text for text in hit)
    verbs = {verb for step in steps for verb in step} - {"at", "as", "for"}
    assert verbs == {"hold", "latency", "cut", "slow_disk", "pause", "elect", "kill"}
    assert not any("kill" in step for steps in struck[::2] for step in steps)  # Those that are safe.
    assert strikes(random.Random(1), about(9000, "c1"), tree, safe=False) == []
    assert strikes(random.Random(1), about(9000, partition="__consumer_offsets-0"), tree, safe=False) == []


def test_a_schedule_is_struck_without_other_changes() -> None:
    """Up to the strike its run is the parent's, so the turn still comes."""
    parent = schedule_of(SeedJob(2, "kafka-2.0", safe=False))
    changed = [mutated(random.Random(n), parent, parent, (about(12_000),)).tree for n in range(24)]
    struck = [tree for tree in changed if any(str(step.get("as")).startswith("strike") for step in tree["timeline"])]
    assert len(struck) > 5
    kept = [all(step in tree["timeline"] for step in faults_of(parent.tree)) for tree in struck]
    assert all(kept)


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


def test_what_breaks_only_what_broke_before_is_not_kept() -> None:
    corpus = Corpus()
    broken = Finding("S17", "b1 cut its log", False)
    corpus.take(Found(1, (broken,), Schedule({"seed": 1}, safe=False), ("a",)))
    corpus.take(Found(2, (broken,), Schedule({"seed": 2}, safe=False), ("b",)))
    assert len(corpus) == 1
    corpus.take(Found(3, (), Schedule({"seed": 3}, safe=False), ("c",)))
    corpus.take(Found(4, (broken, Finding("lost", "r1", False)), Schedule({"seed": 4}, safe=False), ("d",)))
    assert len(corpus) == 3


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


def test_a_run_played_elsewhere_is_the_same_to_the_search() -> None:
    job = SeedJob(3, "kafka-2.0", safe=False)
    run = run_of(job)
    row = run._asdict() | play_run(*run)
    assert found_of(row | {"text": run.text}) == play_seed(job)
    assert row["turns"]

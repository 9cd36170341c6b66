"""`highwater search`: seeds are schedules, findings are files, and shrinking keeps what breaks and what mends."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import yaml

from scenarios.language.parse.catalogue import find_scenario
from scenarios.language.parse.loading import load_text
from scenarios.run.runner import run_scenario
from scenarios.search.document import Kept, document_of
from scenarios.search.findings import Finding, FindingCause, judge, kinds_of
from scenarios.search.schedules import Schedule, Tree, random_schedule
from scenarios.search.search import Found, SeedJob, by_kind, play_seed, schedule_of, shrink


def readers_see_the_log_end(seed: int) -> Schedule:
    """A schedule in which consumers read uncommitted records, cut down to one consumer and ten seconds of faults."""
    schedule = random_schedule(random.Random(seed), safe=True)
    tree = {**schedule.tree, "protocol": {"consumer-limit": "log-end"}, "duration": "20s"}
    tree["workloads"] = {
        **tree["workloads"],
        "r1": {"kind": "consumer", "topic": "t", "config": {"auto.offset.reset": "earliest"}},
    }
    tree["timeline"] = [
        {"at": "5s", "flush": "b1"},
        {"at": "6s", "pause": "b2", "as": "pause-1"},
        {"at": "7s", "resume": "@pause-1"},
        {"at": "8s", "elect": "preferred"},
    ]
    return Schedule(tree, schedule.safe)


def bundled(name: str) -> Tree:
    tree: Tree = yaml.safe_load(Path(find_scenario(name)).read_text())
    return {key: value for key, value in tree.items() if key not in ("expect", "variants")}


def test_a_seed_is_a_schedule() -> None:
    job = SeedJob(7, "kafka-3.9", safe=False)
    assert schedule_of(job) == schedule_of(job)
    assert schedule_of(job).tree["profile"] == "kafka-3.9"
    assert schedule_of(SeedJob(7, "kafka-3.9", safe=True)).safe


def test_an_old_era_gets_troubles_of_its_own_and_a_new_one_none() -> None:
    def troubled(profile: str) -> list[bool]:
        trees = [schedule_of(SeedJob(seed, profile, safe=False)).tree for seed in range(40)]
        return [any(str(step.get("as", "")).startswith("trouble-") for step in tree["timeline"]) for tree in trees]

    assert 10 <= sum(troubled("kafka-2.0")) <= 30
    assert 10 <= sum(troubled("kafka-3.3")) <= 30
    assert not any(troubled("kafka-3.5") + troubled("kafka-3.9"))


def test_a_safe_schedule_of_an_old_era_loses_no_disk() -> None:
    trees = [schedule_of(SeedJob(seed, "kafka-2.0", safe=True)).tree for seed in range(60)]
    assert not [step for tree in trees for step in tree["timeline"] if "power_off" in step or "wipe" in step]


@pytest.mark.soak
def test_a_clean_seed_and_its_file_agree() -> None:
    found = play_seed(SeedJob(3, "kafka-3.9", safe=True))
    assert found.clean
    assert run_scenario(load_text(found.text, "found.yaml").scenario, runs_dir=None).verdict.kinds == ()


@pytest.mark.soak
def test_a_run_ends_once_the_cluster_is_at_rest_and_is_found_clean_as_a_whole_one() -> None:
    schedule = schedule_of(SeedJob(3, "kafka-3.9", safe=True))
    scenario = schedule.scenario()
    early, findings = judge(schedule)
    whole = run_scenario(scenario, runs_dir=None)
    assert early.summary["virtual_s"] < whole.summary["virtual_s"] / 2
    assert (findings, whole.verdict.kinds) == ((), ())
    assert early.summary["records"] == whole.summary["records"]
    assert early.summary["logs"] == whole.summary["logs"]


def test_no_run_ends_before_its_cluster_has_converged() -> None:
    """A replica that stays cut off for good: the run goes on to its time."""
    schedule = schedule_of(SeedJob(3, "kafka-3.9", safe=True))
    leader = {"at": "39s", "kill": "b1"}
    tree = {**schedule.tree, "duration": "70s", "timeline": [leader]}
    result, _ = judge(Schedule(tree, safe=False))
    assert result.summary["virtual_s"] == 70


def test_a_frequent_kind_hides_no_rare_one() -> None:
    by_design, rare, bug = Finding("S25", "first", False), Finding("S7", "rare", False), Finding("S25", "bug", True)
    nothing = Schedule({}, safe=False)
    found = [
        Found(seed, findings, nothing) for seed, findings in ((2, (by_design,)), (5, (by_design, rare)), (9, (bug,)))
    ]
    kinds = [(kind.kind, kind.our_bug, kind.sentence, kind.first.seed, kind.seeds) for kind in by_kind(found)]
    assert kinds == [
        ("S25", False, "first", 2, (2, 5)),
        ("S7", False, "rare", 5, (5,)),
        ("S25", True, "bug", 9, (9,)),
    ]


def test_what_a_loaded_log_has_forgotten_is_promised_to_nobody() -> None:
    """A safe schedule may end with duplicates where a broker no longer knew the batch, and nowhere else."""
    result, findings = judge(Schedule(bundled("idempotent-restart-forgets"), safe=True))
    assert result.verdict.kinds == ("duplicated",)
    assert findings == ()
    result, findings = judge(Schedule(bundled("retry-duplicates-lost-ack"), safe=True))
    assert result.verdict.kinds == ("duplicated",)
    assert [(finding.kind, finding.our_bug) for finding in findings] == [("duplicated", True)]


@pytest.mark.soak
def test_what_a_transform_makes_of_a_batch_that_was_forgotten_is_no_finding() -> None:
    """To the group both copies of an input are records of its topic."""
    tree = bundled("idempotent-restart-forgets")
    tree["topics"]["out"] = {"partitions": 1, "replication_factor": 3, "config": {"min.insync.replicas": 2}}
    config = {"transactional.id": "x", "group.id": "g", "auto.offset.reset": "earliest"}
    tree["workloads"]["x1"] = {"kind": "transform", "topic": "t", "to": "out", "prefix": "x", "config": config}
    result, findings = judge(Schedule(tree, safe=True))
    assert result.verdict.records["duplicated"] == tuple(f"{prefix}r{n}" for prefix in ("", "x") for n in range(5, 10))
    assert findings == ()


@pytest.mark.soak
def test_what_a_reset_consumer_skips_is_no_finding() -> None:
    """Its group's offset has expired, and auto.offset.reset=latest is its owner's wish; and Kafka's consumer keeps its
    position when its topic is made again."""
    result, findings = judge(Schedule(bundled("group-offsets-expired"), safe=True))
    assert result.verdict.kinds == ("poll-skip",) and "poll-skip" not in kinds_of(findings)
    tree = bundled("topic-deleted")
    tree["timeline"] = [
        {"at": "5s", "produce": {"from": "p1", "count": 5}},
        {"at": "10s", "delete_topic": "t"},
        {"at": "10.2s", "create_topic": "t"},
        {"at": "10.21s", "produce": {"from": "p1", "count": 8, "batch": 8}},
    ]
    result, findings = judge(Schedule(tree, safe=True))
    assert "poll-skip" in result.verdict.kinds and "poll-skip" not in kinds_of(findings)


def test_steps_that_share_a_list_are_written_without_an_anchor() -> None:
    tree = bundled("idempotent-restart-forgets")
    both = ["p1", "b1"]
    cut = {"cut": {"between": [both, both]}}
    text = Schedule({**tree, "timeline": [{"at": "1s", **cut}]}, safe=False).text
    assert "&" not in text and "*" not in text


def test_a_broken_invariant_is_found_although_records_were_lost_too() -> None:
    """Where records are lost the verdict leaves it to them to show what an old rule breaks."""
    result, findings = judge(Schedule(bundled("kip101-hw-truncation-loss"), safe=False))
    assert "lost" in result.verdict.kinds and not result.verdict.of("invariant")
    assert findings and not any(finding.our_bug for finding in findings)


@pytest.mark.soak
def test_shrinking_leaves_the_steps_that_are_needed() -> None:
    schedule = readers_see_the_log_end(5)
    result, findings = judge(schedule)
    assert findings and not result.broke_an_invariant
    sizes = [len(smaller.tree["timeline"]) for smaller in shrink(schedule, kinds_of(findings))]
    # Resuming speaks of the pause by its label, so they go together.
    assert sizes == [3, 1, 0]


@pytest.mark.soak
def test_shrinking_keeps_what_mends_and_the_kind_of_finding() -> None:
    """Without the start no broker leads: records are lost. `heal: all` goes with the cut; the first start is enough."""
    tree = bundled("retry-duplicates-lost-ack")
    tree["workloads"]["p1"]["config"]["request.timeout.ms"] = 16000
    hold = {"at": "10s", "hold": {"from": "b1", "to": "p1", "api": "Produce", "part": "response"}, "as": "hold-1"}
    tree["timeline"] = [
        {"at": "1s", "produce": {"from": "p1", "count": 10}},
        {"at": "2s", "pause": "b3", "as": "pause-0", "for": "700ms"},
        {"at": "3s", "cut": {"between": ["b2", "b3"]}, "as": "cut-1"},
        hold,
        {"at": "10.1s", "produce": {"from": "p1", "count": 5}},
        {"at": "10.3s", "power_off": "b1", "as": "dark-2"},
        {"at": "25s", "heal": "all"},
        {"at": "25s", "release": "all"},
        {"at": "25s", "start": "@dark-2"},
        {"at": "31s", "start": "@dark-2"},
    ]
    findings = judge(Schedule(tree, safe=True))[1]
    assert kinds_of(findings) == ("duplicated",)
    *_, smallest = shrink(Schedule(tree, safe=True), ("duplicated",))
    assert kinds_of(judge(smallest)[1]) == ("duplicated",)
    assert [next(key for key in step if key not in ("at", "as")) for step in smallest.tree["timeline"]] == [
        "hold",
        "produce",
        "power_off",
        "release",
        "start",
    ]


def test_a_finding_has_its_smallest_schedule_and_its_runs() -> None:
    def finding(seed: int, *findings: Finding) -> Found:
        return Found(seed, findings, schedule_of(SeedJob(seed, "kafka-2.0", safe=False)))

    lost = Finding("lost", "r1 is gone", True)
    found = [finding(8, lost), finding(2, lost, Finding("S25 min-isr", "moved", False))]
    steps = Schedule({"timeline": [{"at": "40000ms", "heal": "all"}, {"at": "900ms", "kill": "b1", "as": "k"}]}, False)
    kept = {seed: Kept(f"found/{seed}.yaml", steps.text, True) for seed in (8, 2)}
    asked = {"era": "kafka-2.0", "mode": "blind", "safe": False, "seeds": "1..9"}
    document = document_of(asked, range(1, 10), 9, found, by_kind(found), kept)
    assert (document["asked"], document["played"], document["broke_something"]) == (9, 9, 2)
    bug, by_design = document["findings"]
    assert (bug["kind"], bug["runs"], bug["first_seed"], bug["shown_seed"]) == ("lost", [2, 8], 2, 8)
    assert by_design["runs"] == [2] and bug["steps"] == [("0.900 s", "kill: b1, as: k"), ("40.000 s", "heal: all")]


@pytest.mark.soak
@pytest.mark.parametrize(("seed", "kinds"), [(759, ("unseen",)), (1293, ("dirty-read", "lost"))])
def test_what_a_cleared_elr_loses_is_no_bug(seed: int, kinds: tuple[str, ...]) -> None:
    """An operator changed min.insync.replicas while committed records were only with members of the ELR."""
    _, found = judge(schedule_of(SeedJob(seed, "kafka-4.4", safe=False, swarm=True)))
    assert kinds_of(found) == kinds
    assert [finding.cause for finding in found] == [FindingCause.ERA] * len(kinds)

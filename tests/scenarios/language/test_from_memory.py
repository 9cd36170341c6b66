"""What people write from memory hears the right spelling, and hears it once."""

from __future__ import annotations

import pytest
from small_scenario import HEAD, errors_of, file_of

from scenarios.language.parse.loading import load_text
from scenarios.language.verbs.every import VERBS

ALL_ACKED = "write r0..r19 or {count: {at_least: 18}}; if all are acked, write `failed: none, unknown: none`"
NO_WAIT = "steps do not wait for each other: give each its time since the start of the run, such as `at: 10.5s`"
SPELLINGS = [
    ("cut: A", "write {between: [rack(A), [b2, b3, c1]]}"),
    ("cut: B", "write {between: [rack(B), [b1, c1]]}"),
    ("cut: b1", "write {between: [b1, [b2, b3, c1]]}"),
    ("cut: rack A", "write {between: [rack(A), [b2, b3, c1]]}"),
    ("cut: c1", "write {between: [c1, [b1, b2, b3]]}"),
    ("cut: p1", "write {between: [p1, brokers]}"),
    ("cut: leader(t-0)", "write {between: [leader(t-0), followers(t-0)]}"),
    ("cut: b1-b3", "write {between: [b1, b3]}"),
    ("cut: {between: A}", "write [rack(A), [b2, b3, c1]]"),
    ("cut: {between: [A]}", "write [rack(A), [b2, b3, c1]]"),
    ("cut: {rack: A}", "write `between: [rack(A), [b2, b3, c1]]`"),
    ("cut: {node: b1}", "write `between: [b1, [b2, b3, c1]]`"),
    ("cut: {from: A, to: b2}", "write `between: [rack(A), b2]`"),
    ("latency: {brokers: [b1, b2], add: 5ms}", "write `between: [b1, b2]`"),
    ("hold: {between: [b1, b2], api: Fetch, to: b2}", "write `from: b1, to: b3`"),
    ("partition: A", "write [rack(A), [b2, b3, c1]]"),
    ("partition: b1", "write [b1, [b2, b3, c1]]"),
    ("partition: [b1]", "write [b1, [b2, b3, c1]]"),
    ("partition: {racks: [A, B]}", "write [rack(A), rack(B)]"),
    ("partition: {between: [b1, b2]}", "write [b1, b2]"),
    ("partition: brokers", "for example [[b1], [b2, b3, c1]]"),
    ("heal: A", "write `all`, or add `as: NAME` to the step to undo, and write that NAME"),
    ("heal: b1-b2, as: x", "write `all`, or add `as: NAME` to the step to undo, and write that NAME"),
    ("heal: b1-b2", "write `all`, or add `as: NAME` to the step to undo, and write that NAME"),
    ("heal: [b1, b2]", "write `all`, or add `as: NAME` to the step to undo, and write that NAME"),
    ("kill: {broker: b1}", "did you mean `b1`?"),
    ("kill: {brokers: [b1, b2]}", "did you mean `[b1, b2]`?"),
    ("kill: {leader: t-0}", "did you mean `leader(t-0)`?"),
    ("pause: {broker: b1, for: 5s}", "write b1 here, and put other keys beside the verb"),
    ("kill: t-0", "did you mean `leader(t-0)`?"),
    ("kill: t", "did you mean `leader(t-0)`?"),
    ("kill: leader t", "did you mean `leader(t-0)`?"),
    ("kill: leader(t)", "did you mean `leader(t-0)`?"),
    ("kill: first broker", "for example b1, leader(t-0) or rack(A)"),
    ("stop: b1, every: 5s", "add `times: 3`"),
    ("lose_disk: b1", "did you mean `fail_disk`?"),
    ("replace_disk: b1", "did you mean `wipe`?"),
    ("power_on: b1", "did you mean `start`?"),
    ("block: {between: [b1, b2]}", "did you mean `cut`?"),
    ("latency: {between: [b1, b2], delay: 5ms}", "did you mean `add`?"),
    ("rolling_restart: {brokers: brokers, interval: 5s}", "did you mean `pause`?"),
    ("commit: p1", "a producer with `transaction: {records: 10}` begins and ends transactions by itself"),
    ("rebalance: g", "a group rebalances when a member joins or leaves: write `stop: m1`"),
    ("elect: unclean", "write `elect: {unclean: true}`"),
    ("elect: unclean t-0", "write `elect: {partition: t-0, unclean: true}`"),
    ("elect: {partition: t-0, unclean: yes}", "write `unclean: true`"),
    ("elect: {partition: t-0, unclean: Off}", "write `unclean: false`"),
    ("elect: t-0", "write `elect: {partition: t-0}`"),
    ("elect: b2 for t-0", "write `elect: {partition: t-0, broker: b2}`"),
    ("elect: {t-0: b2}", "write `elect: {partition: t-0, broker: b2}`"),
    ("elect: {election_type: preferred}", "write `elect: preferred`"),
    ("elect: {partition: t-0, to: b2}", "did you mean `broker`?"),
    ("elect: {partition: t-0, node: b2}", "did you mean `broker`?"),
    ("elect: {topic: t, broker: b2}", "write `partition: t-0`"),
    ("pause: b1 5s", "write `pause: b1, for: 5s`"),
    ("pause: b1 for 5s", "write `pause: b1, for: 5s`"),
    ("pause: {b1: 5s}", "write `pause: b1, for: 5s`"),
    ("restart: b1 5s", "write `kill: b1, for: 5s`"),
    ("kill: b1 b2", "write `kill: [b1, b2]`"),
    ("kill: [b1 b2]", "write `kill: [b1, b2]`"),
    ("kill: b1 and b2", "write `kill: [b1, b2]`"),
    ("kill: broker b1", "write `kill: b1`"),
    ("kill: {b1: {}}", "write `kill: b1`"),
    ("kill: {id: b1}", "write `kill: b1`"),
    ("rolling_restart: b1 b2 b3", "write `rolling_restart: [b1, b2, b3]`"),
    ("cut: b1 -> b2", "write `cut: {between: [b1, b2]}`"),
    ("cut: b1-b2 5s", "write `cut: {between: [b1, b2]}, for: 5s`"),
    ("cut: {b1: b2}", "write `cut: {between: [b1, b2]}`"),
    ("latency: b1-b2 200ms", "write `latency: {between: [b1, b2], add: 200ms}`"),
    ("latency: {b1-b2: 200ms}", "write `latency: {between: [b1, b2], add: 200ms}`"),
    ("loss: {between: [b1, b2], percent: 10%}", "did you mean `rate`?"),
    ("hold: b1-b2 Fetch", "write `hold: {from: b1, to: b2, api: Fetch}`"),
    ("produce: p1 10", "write `produce: {from: p1, count: 10}`"),
    ("produce: {p1: 10}", "write `produce: {from: p1, count: 10}`"),
    ("reassign: {t-0: [b1, b2]}", "write `reassign: {partition: t-0, to: [b1, b2]}`"),
    ("reassign: {partition: t-0, replicas: [b1, b2]}", "did you mean `to`?"),
    ("create_topic: {topic: t}", "write `create_topic: t`"),
    ("create_partitions: t 6", "write `create_partitions: {topic: t, count: 6}`"),
    ("create_partitions: {topic: t, partitions: 6}", "did you mean `count`?"),
    ("delete_records: t", "did you mean `t-0`?"),
    ("delete_records: {partition: 0}", "did you mean `t-0`?"),
    ("set_config: t min.insync.replicas=1", "write `set_config: {topic: t, config: {min.insync.replicas: 1}}`"),
    ("set_config: {min.insync.replicas: 1}", "belongs under `config:`"),
    ("set_quota: {client: p1, producer_byte_rate: 1000}", "belongs under `quota:`"),
    ("reset_offsets: {group: g, topic: t, to_offset: 5}", "did you mean `to`?"),
    ("slow_disk: b1 200ms", "write `slow_disk: {brokers: b1, append: 200ms}`"),
    ("slow_disk: {brokers: b1, delay: 200ms}", "did you mean `append`?"),
    ("slow_disk: b1", "for example {brokers: b1, append: 2s, read: 1s, throughput: 1MB/s}"),
    ("fail: Produce", "for example {api: Produce, errors: [NOT_LEADER_OR_FOLLOWER, REQUEST_TIMED_OUT]}"),
    ("bump_clock: {b1: 5s}", "write `bump_clock: {brokers: b1, by: 5s}`"),
    ("check: {leader: b2}", "write `state: {t-0: {leader: ...}}`"),
    ("check: {t-0: {leader: b2}}", "write `state: {t-0: ...}`"),
    ("check: {lost: 0}", "write `records: {lost: none}`"),
    ("check: {logs: {t-0: {leo: 10}}}", "write `state: {t-0: {leo: 10}}`"),
    ("kill: b1, until: 10s", "did you mean `for`?"),
    ("kill: b1, name: x", "did you mean `as`?"),
    ("do: kill b1", "write `kill: b1`"),
    ("kill b1", "write `kill: b1`"),
    ("cut b1-b2", "write `cut: {between: [b1, b2]}`"),
    ("log: hello", "no such field"),
    ("isr: 2", "test the ISR with `check: {state: {t-0: {isr: [b1, b2]}}}`; set min.insync.replicas with `set_config`"),
    ("check: {state: {t-0: {isr: 2}}}", "write its members, such as [b1, b2]"),
    ("check: {state: {t-0: {isr: {at_least: 2}}}}", "write its members, such as [b1, b2]"),
    ("check: {state: {t-0: {isr: b1, b2}}}", "put a list in brackets: `isr: [b1, b2]`"),
    ("kill: random", "names no node: write b1, leader(t-0) or follower(t-0,1)"),
    ("kill: {mode: {}}", "for example b1, leader(t-0) or rack(A)"),
    ("kill: leader", "did you mean `leader(t-0)`?"),
    ("kill: b1, b2", "write `kill: [b1, b2]`"),
    ("kill b1, b2, b3", "write `kill: [b1, b2, b3]`"),
    ("pause: b1, 5s", "write `pause: b1, for: 5s`"),
    ("latency: b1, b2, 200ms", "write `latency: {between: [b1, b2], add: 200ms}`"),
    ("reassign: t-0 b1,b2", "write `reassign: {partition: t-0, to: [b1, b2]}`"),
    ("reassign t-0 to b2,b3", "write `reassign: {partition: t-0, to: [b2, b3]}`"),
    ("nemesis: kill, value: b1", "write `kill: b1`"),
    ("pod-kill: b1", "did you mean `kill`?"),
    ("crash: b1", "did you mean `kill`?"),
    ("isolate: b1", "write `partition: [b1, [b2, b3, c1]]`"),
    ("isolate: [b1, b2]", "write `partition: [[b1, b2], [b3, c1]]`"),
    ("isolate: minority", "list every side in `partition`: `partition: [[b1], [b2, b3, c1]]`"),
    ("disconnect: b1", "write `cut: {between: [b1, [b2, b3, c1]]}`"),
    ("network_partition: b1", "write `partition: [b1, [b2, b3, c1]]`"),
    ("network partition", "for example `partition: [[b1], [b2, b3, c1]]`"),
    ("partition: b1 | b2 b3", "write [b1, [b2, b3]]"),
    (
        "partition: b1, b2 / b3",
        "the comma ends the value of `partition`: put a list in brackets, and give each key a value",
    ),
    ("partition: random-halves", "for example [[b1], [b2, b3, c1]]"),
    ("partition: ", "for example [[b1], [b2, b3, c1]]"),
    ("cut: {between: }", "for example [b1, [b2, b3]]"),
    ("latency: {upstream: b1, downstream: b2, add: 5ms}", "write `between: [b1, b2]`"),
    ("latency: {between: [b1, b2], latency: 5ms}", "did you mean `add`?"),
    ("loss: {between: [b1, b2], loss: 10%}", "did you mean `rate`?"),
    ("loss: {between: [b1, b2], rate: 25}", "did you mean `25%`?"),
    ("loss: {between: [b1, b2], rate: 1}", "write 10% or 0.5%"),
    ("fail: {api: Produce, errors: []}", ""),
    ("fail: {api: Produce, errors: REQUEST_TIMED_OUT, partitions: []}", ""),
    ("produce: {topic: t, count: 5}", "the topic of a producer is in `workloads`: write `from: p1`"),
    ("produce: {from: p2, topic: t, count: 5}", "the topic of a producer is in `workloads`: leave it out"),
    ("wait: 5s", NO_WAIT),
    ("wait: {t-0: {leader: b2}}", "did you mean `when`?"),
    ("sleep: 5", NO_WAIT),
    ("kill: b1, sleep: 5s", NO_WAIT),
    ("consume: t", "a consumer in `workloads` reads by itself: `c1r: {kind: consumer, topic: t}`"),
    ("reorder: b1", "TCP never duplicates or reorders data; use `loss` or `latency` to delay messages"),
    (
        "alter_topic: {topic: t, partitions: 6}",
        "use `set_config: {topic: t, config: {...}}`, or `create_partitions: {topic: t, count: 6}`",
    ),
    ("commit_offsets: g", "members of a group commit by themselves; use `reset_offsets` to change committed offsets"),
    ("exec: kafka-topics.sh", "no such field"),
    ("shell: kill -9", "no such field"),
]
STEPS_IN_WORDS = [
    ("kill b1 at 5s", "{at: 5s, kill: b1}"),
    ("at 5s kill b1", "{at: 5s, kill: b1}"),
    ("5s kill b1", "{at: 5s, kill: b1}"),
    ("kill b1 at 5", "{at: 5s, kill: b1}"),
    ("kill the leader of t-0 at 5s", "{at: 5s, kill: leader(t-0)}"),
    ("[5s, kill, b1]", "{at: 5s, kill: b1}"),
    ("killl b1 at 5s", "{at: 5s, kill: b1}"),
    ("crash b1 after 5s", "{at: 5s, kill: b1}"),
    ("kill(b1)", "{at: 10.5s, kill: b1}"),
    ("pause b1 for 5s at 20s", "{at: 20s, pause: b1, for: 5s}"),
    ("reassign t-0 to b2,b3", "{at: 10.5s, reassign: {partition: t-0, to: [b2, b3]}}"),
    ("isolate b1 at 5s", "{at: 5s, partition: [b1, [b2, b3, c1]]}"),
    ("isolate b1 b2 at 5s", "{at: 5s, partition: [[b1, b2], [b3, c1]]}"),
    ("network partition b1 b2 at 5s", "{at: 5s, partition: [[b1], [b2]]}"),
    ("kill b9 at 5s", None),
    ("b1 dies", None),
    ("hello", None),
]


@pytest.mark.parametrize(("step", "label"), SPELLINGS, ids=[step for step, _ in SPELLINGS])
def test_a_step_written_from_memory_hears_the_right_spelling(step: str, label: str) -> None:
    errors = errors_of(file_of(f"{{at: 5s, {step}}}"))
    assert {error.label for error in errors} == {label}


LINES = [label.removeprefix("write `").removesuffix("`") for _, label in SPELLINGS if label.startswith("write `")]


@pytest.mark.parametrize(
    "line", [line for line in dict.fromkeys(LINES) if line.split(":")[0] in VERBS and line != "partition: t-0"]
)
def test_the_line_that_a_step_hears_is_valid(line: str) -> None:
    assert not errors_of(file_of(f"{{at: 5s, {line}}}"))


@pytest.mark.parametrize(("words", "line"), STEPS_IN_WORDS)
def test_a_step_in_words_hears_its_line(words: str, line: str | None) -> None:
    (error,) = errors_of(file_of(words))
    assert error.label == (f"write {line}" if line else "")
    assert line is None or not errors_of(file_of(line))


@pytest.mark.parametrize(
    ("words", "label"),
    [
        ("network partition", "for example `partition: [[b1], [b2, b3, c1]]`"),
        ("wait 5s", NO_WAIT),
        ("sleep 5", NO_WAIT),
    ],
)
def test_a_step_in_words_that_says_too_little_hears_an_example(words: str, label: str) -> None:
    (error,) = errors_of(file_of(words))
    assert error.label == label


@pytest.mark.parametrize("step", [step for step, label in SPELLINGS if label.startswith("write {between")])
def test_the_spelling_that_a_cut_hears_is_valid(step: str) -> None:
    (error,) = errors_of(file_of(f"{{at: 5s, {step}}}"))
    right = error.label.removeprefix("write ")
    assert not errors_of(file_of(f"{{at: 5s, cut: {right}}}"))
    assert not errors_of(file_of(f"{{at: 5s, partition: {right.removeprefix('{between: ').removesuffix('}')}}}"))


@pytest.mark.parametrize(
    ("step", "labels"),
    [
        ("{at: 5s, action: kill, target: b1}", ["write `kill: b1`"]),
        ("{at: 5s, fault: stop}", ["write the verb as a key: `stop: ...`"]),
        ("5s: kill b1", ["write `at: 5s, kill: b1`"]),
        ("{at 5s, kill: b1}", ["write `at: 5s, kill: b1`"]),
        ("{type: info, f: kill, value: b1}", ["write `at: 10.5s, kill: b1`"]),
        ("{at: 5s, lasting: b1}", ["no such field"]),
    ],
)
def test_a_step_without_a_verb_hears_that_a_verb_is_a_key(step: str, labels: list[str]) -> None:
    assert [error.label for error in errors_of(file_of(step))] == labels


@pytest.mark.parametrize(
    ("expect", "label"),
    [
        ("{lost: 0}", "write `records: {lost: none}`"),
        ("{lost: 3}", "write `records: {lost: {count: 3}}`"),
        ("{lost_records: none}", "write `records: {lost: none}`"),
        ("{data_loss: false}", "write `records: {lost: none}`"),
        ("{duplicates: 2}", "write `records: {duplicated: {count: 2}}`"),
        ("{leader: b2}", "write `state: {t-0: {leader: ...}}`"),
        ("{isr: [b1]}", "write `state: {t-0: {isr: ...}}`"),
        ("{records: {lost: 0}}", "did you mean `none`?"),
        ("{errors: none}", "for example {p1: none}"),
        ("{unavailable: none}", "for example {t-0: {writes: none}}"),
        ("{latency: {max: 5s}}", "for example {p1: {max: ...}}"),
        ("{verdicts: ok}", "did you mean `verdict`?"),
        ("{verdict: pass}", "did you mean `ok`?"),
        ("{verdict: data_loss}", "did you mean `lost`?"),
        ("{logs: {t-0: {leo: 10}}}", "write `state: {t-0: {leo: 10}}`"),
        ("{logs: {t-0: {hw: 10}}}", "write `state: {t-0: {hw: 10}}`"),
        ("{logs: {leo: 10}}", "write `state: {t-0: {leo: 10}}`"),
        ("{logs: {t-0: 10}}", "write `state: {t-0: {leo: 10}}`"),
        ("{logs: {t-0: {b1: 10}}}", "write `state: {b1: {t-0: {leo: 10}}}`"),
        ("{logs: {t-0: {b1: {hw: 10}}}}", "write `state: {b1: {t-0: {hw: 10}}}`"),
        ("{logs: {b1: {t-0: r0..r9}}}", "write `t-0: {b1: r0..r9}`"),
        ("{logs: {b1: r0..r9}}", "write `t-0: {b1: r0..r9}`"),
        ("{logs: {t: r0..r9}}", "write `t-0: r0..r9`"),
        ("{logs: {t-0: {leader: r0..r9}}}", "write `t-0: r0..r9`"),
        ("{logs: {t-0: {b9: r0..r9}}}", "unknown"),
        ("{logs: same}", "for example {t-0: r0..r9}"),
        ("{state: {t-0: b2}}", "write {leader: b2}"),
        ("{state: {b1: down}}", "write {running: false}"),
        ("{state: {b1: {state: dead}}}", "write {running: false}"),
        ("{state: {b1: {alive: false}}}", "did you mean `running`?"),
        ("{state: {b1: {leo: 10}}}", "write {t-0: {leo: 10}}"),
        ("{state: {b1: {t-0: 10}}}", "write {leo: 10}"),
        ("{state: {t-0: {b1: {leo: 10}}}}", "write `b1: {t-0: {leo: ...}}`, beside `t-0`"),
        ("{state: {leader: {t-0: b2}}}", "write {t-0: {leader: b2}}"),
        ("{state: {t-0: {hw: '>= 10'}}}", "write {at_least: 10}"),
        ("{state: {t-0: {hw: '<10'}}}", "write {at_most: 9}"),
        ("{state: {t-0: {hw: 10+}}}", "write {at_least: 10}"),
        ("{state: {t-0: {hw: {min: 10}}}}", "did you mean `at_least`?"),
        ("{state: {t: {leader: b2}}}", "did you mean `t-0`?"),
        ("{records: {lost: some}}", "did you mean `{count: {at_least: 1}}`?"),
        ("{records: {lost: 5 records}}", "did you mean `{count: 5}`?"),
        ("{records: {acked: '>90%'}}", ALL_ACKED),
        ("{records: {acked: all}}", ALL_ACKED),
        ("{records: {lost: r0-r9}}", "did you mean `r0..r9`?"),
        ("{records: none}", "for example {lost: none}"),
        ("{events: [leader_elected]}", "write {event: leader_elected}"),
        ("{events: leader_elected}", "for example [{event: leader_elected, broker: b2}]"),
        ("{errors: {p1: NOT_ENOUGH_REPLICAS}}", "for example none or {NOT_ENOUGH_REPLICAS: {count: 3}}"),
        ("{latency: {p1: {max: 5s}}}", "write {at_most: 5s}"),
        ("{unavailable: {t-0: {writes: 9s}}}", "for example [{from: 10.5s, to: 19.5s}]"),
        ("{diverged: {t-0: none}}", "for example {offsets: [10], replicas: [b1, b2]}"),
    ],
)
def test_an_expectation_written_from_memory_hears_the_right_spelling(expect: str, label: str) -> None:
    (error,) = errors_of(file_of(expect=f"expect: {expect}\n"))
    assert error.label == label


PRODUCER, CONSUMER = "p1: {kind: producer, topic: t", "c1r: {kind: consumer, topic: t"
MEMBERS = "write a group member as `kind: transform`"


@pytest.mark.parametrize(
    ("old", "new", "label"),
    [
        (CONSUMER, "c1r: {type: consumer, topic: t", "did you mean `kind`?"),
        (PRODUCER, "p1: {type: producer, topic: t", "did you mean `kind`?"),
        (CONSUMER, "c1r: {kind: consumer_group, topic: t", MEMBERS),
        (CONSUMER, "c1r: {kind: group, topic: t", MEMBERS),
        (CONSUMER, CONSUMER + ", group: g", f"did you mean `group.id`? {MEMBERS}"),
        (CONSUMER, CONSUMER + ", groupId: g", f"did you mean `group.id`? {MEMBERS}"),
        (CONSUMER, CONSUMER + ", auto_commit: true", f"did you mean `enable.auto.commit`? {MEMBERS}"),
        (CONSUMER, CONSUMER + ", isolation_level: x", "did you mean `isolation.level`? belongs under `config:`"),
        (CONSUMER, CONSUMER + ", to: out", MEMBERS),
        (CONSUMER, CONSUMER + ", instances: 2", "did you mean `count`?"),
        (
            PRODUCER,
            "p1: {kind: transactional_producer, topic: t",
            "write `kind: producer` and `config: {transactional.id: orders}`",
        ),
        (PRODUCER, PRODUCER + ", transactional: true", "did you mean `transactional.id`? belongs under `config:`"),
        (PRODUCER, PRODUCER + ", config: {transactional.id: x}, transaction: 10", "write {records: 10}"),
        (PRODUCER, PRODUCER + ", config: {transactional.id: x}, transaction: {size: 10}", "did you mean `records`?"),
        (
            PRODUCER,
            PRODUCER + ", count: 10",
            "limit a producer by `rate` and `stop`, or send records in a step: `produce: {from: p1, count: 10}`",
        ),
        (
            "config: {min.insync.replicas: 2}",
            "min_isr: 2",
            "did you mean `min.insync.replicas`? belongs under `config:`",
        ),
        (
            "config: {min.insync.replicas: 2}",
            "acks: all",
            "a key of producers: put it under `workloads.NAME.config`",
        ),
        ("{partitions: {0: [b1, b2, b3]}, config: {min.insync.replicas: 2}}", "3", "write {partitions: 3}"),
        (
            "{partitions: {0: [b1, b2, b3]}, config: {min.insync.replicas: 2}}",
            "[b1, b2]",
            "write {partitions: {0: [b1, b2]}}",
        ),
        (
            "\n  t: {partitions: {0: [b1, b2, b3]}, config: {min.insync.replicas: 2}}",
            " orders",
            "write {orders: {partitions: 1}}",
        ),
        ("cluster:\n", "cluster:\n  min.insync.replicas: 2\n", "belongs under `config:`"),
        (
            "cluster:\n",
            "cluster:\n  replicas: 3\n",
            "belongs to a topic: `t: {partitions: 1, replication_factor: 3}`",
        ),
        ("cluster:\n", "services: {}\ncluster:\n", "did you mean `cluster`?"),
        ("cluster:\n", "kind: Scenario\ncluster:\n", "no such field"),
        ("cluster:\n", "cluster:\n  controllers: 3\n", "write [c1, c2, c3]"),
        ("cluster:\n", "cluster:\n  racks: {A: [b1]}\n", "belongs to each broker: `brokers: {b1: {rack: A}}`"),
        ("cluster:\n", "cluster:\n  controllers: {c1: {rack: B}}\n", "write [c1]"),
        ("cluster:\n", "racks: {A: [b1]}\ncluster:\n", "belongs to each broker: `cluster: {brokers: {b1: {rack: A}}}`"),
        ("cluster:\n", "assert: {lost: none}\ncluster:\n", "did you mean `expect`?"),
        ("cluster:\n", "kafka_version: 4.0\ncluster:\n", "did you mean `profile`?"),
    ],
)
def test_a_block_written_from_memory_hears_the_right_spelling(old: str, new: str, label: str) -> None:
    assert old in HEAD
    errors = errors_of(file_of(head=HEAD.replace(old, new)))
    assert [error.label for error in errors] == [label]


OF_CLIENTS, OF_GROUPS = "put it under `workloads.NAME.config`", f"a key of consumers: {MEMBERS}"


@pytest.mark.parametrize("form", ["config: {{{0}: 5}}", "{0}: 5"])
@pytest.mark.parametrize(
    ("block", "key", "label"),
    [
        (PRODUCER, "group.id", OF_GROUPS),
        (PRODUCER, "groupId", f"did you mean `group.id`? {OF_GROUPS}"),
        (PRODUCER, "session.timeout.ms", OF_GROUPS),
        (PRODUCER, "max.poll.records", f"a key of consumers: {OF_CLIENTS}"),
        (PRODUCER, "auto_offset_reset", f"did you mean `auto.offset.reset`? a key of consumers: {OF_CLIENTS}"),
        (PRODUCER, "min.insync.replicas", "a key of topics: put it under `topics.NAME.config`"),
        (PRODUCER, "replica.lag.time.max.ms", "a key of brokers: put it under `cluster.config`"),
        (CONSUMER, "acks", f"a key of producers: {OF_CLIENTS}"),
        (CONSUMER, "linger.ms", f"a key of producers: {OF_CLIENTS}"),
        (CONSUMER, "retention.ms", "a key of topics: put it under `topics.NAME.config`"),
        ("t: {partitions: {0: [b1, b2, b3]}", "acks", f"a key of producers: {OF_CLIENTS}"),
        ("t: {partitions: {0: [b1, b2, b3]}", "retry.backoff.ms", f"a key of clients: {OF_CLIENTS}"),
        (
            "t: {partitions: {0: [b1, b2, b3]}",
            "broker.session.timeout.ms",
            "a key of brokers: put it under `cluster.config`",
        ),
        ("b1: {rack: A", "group.id", OF_GROUPS),
        ("b1: {rack: A", "max.poll.records", f"a key of consumers: {OF_CLIENTS}"),
    ],
)
def test_a_key_of_another_block_hears_whose_it_is(block: str, key: str, label: str, form: str) -> None:
    head = HEAD.replace(", config: {min.insync.replicas: 2}", "")
    (error,) = errors_of(file_of(head=head.replace(block, f"{block}, {form.format(key)}")))
    assert (error.label, error.suggestion) == (label, None)


@pytest.mark.parametrize(
    ("key", "value", "label"),
    [
        ("enable.idempotence", "yes", "did you mean `true`?"),
        ("enable.idempotence", "Off", "did you mean `false`?"),
        ("acks", "ALL", "did you mean `all`?"),
        ("compression.type", "GZIP", "did you mean `gzip`?"),
    ],
)
def test_a_value_of_a_config_hears_how_kafka_spells_it(key: str, value: str, label: str) -> None:
    head = HEAD.replace(PRODUCER, f"{PRODUCER}, config: {{{key}: {value}}}")
    assert [error.label for error in errors_of(file_of(head=head))] == [label]


VARIANT = "variants: [{{id: v, {}, expect: {{verdict: ok}}}}]\n"


@pytest.mark.parametrize(
    ("line", "label"),
    [
        ("variant: [{id: v}]\n", "did you mean `variants`?"),
        ("varients: []\n", "did you mean `variants`?"),
        ("nemesis: []\n", "did you mean `timeline`?"),
        (
            VARIANT.format("config: {acks: all}"),
            "belongs under `patch:`, such as `patch: {workloads: {p1: {config: {acks: all}}}}`",
        ),
        (VARIANT.format("cluster: {}"), "belongs under `patch:`, as `patch: {cluster: ...}`"),
        (
            VARIANT.format("patch: {workloads.p1.config.enable.idempotence: true}"),
            "write `workloads: {p1: {config: {enable.idempotence: true}}}`",
        ),
        (VARIANT.format("patch: {workloads.p1: {}}"), "write `workloads: {p1: ...}`"),
    ],
)
def test_a_field_of_the_file_or_a_variant_hears_its_place_or_form(line: str, label: str) -> None:
    (error,) = errors_of(f"{file_of()}{line}")
    assert error.label == label
    assert not error.notes or "variants" in error.notes[0] or "variant 1" in error.notes[0]


def test_a_workload_that_says_type_is_read_as_that_kind() -> None:
    (error,) = errors_of(file_of(head=HEAD.replace(CONSUMER, "c1r: {type: consumer, topic: t")))
    assert error.title == "unknown field `type` in consumer `c1r`"


def test_a_rack_that_a_broker_overrides_is_no_rack() -> None:
    head = HEAD.replace("cluster:\n", "cluster:\n  config: {broker.rack: Z}\n")
    assert [error.title for error in errors_of(file_of("{at: 5s, kill: rack(Z)}", head=head))] == ["unknown rack `Z`"]
    one = head.replace("b1: {rack: A}", "b1: {}")
    assert load_text(file_of("{at: 5s, kill: rack(Z)}", head=one), "test.yaml").scenario.cluster.racks["b1"] == "Z"

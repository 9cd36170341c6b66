"""Error screens: golden files, positions, suggestions, formats, and hostile input that must stay one clear error."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_scenario import HEAD, PLAIN_EXPECT, caret_text, errors_of, file_of

from scenarios.language.codes import EXPLANATIONS, explain
from scenarios.language.diagnostics import (
    KEPT_AT_MOST,
    ScenarioInvalid,
    did_you_mean,
    format_github,
    format_json,
    format_text,
    render,
)
from scenarios.language.parse.loading import REQUIRED_FIELDS, check_file, load_file, load_text
from scenarios.language.parse.workloads import A_MEMBER
from scenarios.language.values.synonyms import FIELD_SYNONYMS

GOLDEN = Path(__file__).parents[2] / "golden" / "diagnostics"


@pytest.mark.parametrize("name", sorted(path.stem for path in GOLDEN.glob("*.yaml")))
def test_error_screen(name: str, request: pytest.FixtureRequest) -> None:
    text = (GOLDEN / f"{name}.yaml").read_text()
    try:
        load_text(text, f"{name}.yaml")
        pytest.fail("the golden scenario loads")
    except ScenarioInvalid as invalid:
        screen = format_text(invalid.file, invalid.diagnostics) + "\n"
    golden = GOLDEN / f"{name}.txt"
    if request.config.getoption("--rewrite"):
        golden.write_text(screen)
    assert screen == golden.read_text()
    assert max(map(len, screen.splitlines())) <= 80


# (text of the file, its replacement, code, text under the caret, suggestion)
SINGLE_ERRORS = [
    ("schema: 1", "schema: 2", "E110", "2", None),
    ("id: small", "id: Small Thing", "E113", "Small Thing", None),
    ("duration: 60s", "duration: 60", "E121", "60", "60ms"),
    ("duration: 60s", "duration: 1:30", "E122", "1:30", None),
    ("duration: 60s", "duration: 60 s", "E122", "60 s", "60s"),
    ("duration: 60s", "duration: -1s", "E112", "-1s", None),
    ("duration: 60s", "duration: 0s", "E112", "0s", None),
    ("duration: 60s", "duration: 99999999999999m", "E112", "99999999999999m", None),
    ("duration: 60s", "duration: 1e400s", "E112", "1e400s", None),
    ("duration: 60s", "duration: 9999999999999999s", "E112", "9999999999999999s", None),
    ("duration: 60s", "lenght: 60s", "E105", "s", None),
    ("title: Small", "title: {a: b}", "E111", "{a: b}", None),
    ("title: Small", "title: Small\nseed: -1", "E112", "-1", None),
    ("title: Small", "title: Small\nseed: 1_0", "E111", "1_0", None),
    ("title: Small", "title: Small\nprofile: newest", "E110", "newest", None),
    ("title: Small", "title: Small\nprotocol: {membership: zk-session}", "E127", "{membership: zk-session}", None),
    ("title: Small", "title: Small\nprotocol: {truncation: high-water}", "E110", "high-water", "high-watermark"),
    ("title: Small", "title: Small\nlesson: 6", "E112", "6", None),
    ("title: Small", "title: Small\ntitle: Big", "E107", "title", None),
    ("title: Small", "title: &a Small", "E108", "&a Small", None),
    ("title: Small", "title: !!python/name:os.system Small", "E109", "!!python/name:os.system Small", None),
    ("{rack: B}}", "{racks: B}}", "E104", "racks", "rack"),
    ("b3: {rack: B}", "b3: {disk: {}}", "E105", "{}", None),
    ("b3: {rack: B}", "all: {rack: B}", "E113", "all", None),
    ("b3: {rack: B}}", "b3: {rack: B}}\n  phases: ranodm", "E111", "ranodm", "random"),
    ("b3: {rack: B}}", "b3: {rack: B}}\n  phases: {b4: 1s}", "E131", "b4", None),
    ("b3: {rack: B}}", "b3: {rack: B}}\n  phases: {b1: 10m}", "E112", "10m", None),
    ("b3: {rack: B}}", "b3: {rack: B}}\n  phases: {b1: 3}", "E121", "3", "3ms"),
    ("b3: {rack: B}}", "b3: {rack: B}}\n  heartbeats: {c1: 1s}", "E131", "c1", None),
    ("b3: {rack: B}", "b/3: {rack: B}", "E113", "b/3", None),
    ("  brokers:", "  controllers: [c1, c2]\n  brokers:", "E112", "[c1, c2]", None),
    (
        "\ncluster:",
        "\nprotocol: {membership: zk-session}\ncluster:\n  controllers: [c1, c2, c3]",
        "E111",
        "[c1, c2, c3]",
        None,
    ),
    ("  brokers:", "  config: {replica.lag.time.max: 1}\n  brokers:", "E126", "replica.lag.time.max", None),
    (
        "  brokers:",
        "  config: {replica.fetch.wait.max.ms: 99999}\n  brokers:",
        "E126",
        "replica.fetch.wait.max.ms",
        None,
    ),
    ("[b1, b2, b3]", "[b1, b2, b4]", "E131", "b4", None),
    ("[b1, b2, b3]", "[b1, b2, b2]", "E134", "[b1, b2, b2]", None),
    ("{0: [b1, b2, b3]}", "{1: [b1, b2, b3]}", "E112", "{1: [b1, b2, b3]}", None),
    ("{0: [b1, b2, b3]}", "1001", "E112", "1001", None),
    ("{0: [b1, b2, b3]}", "99999999999999999999", "E112", "99999999999999999999", None),
    ("{0: [b1, b2, b3]}", "-99999999999999999999", "E112", "-99999999999999999999", None),
    ("t: {partitions", "../../x: {partitions", "E113", "../../x", None),
    ("t: {partitions", "__cluster_metadata: {partitions", "E113", "__cluster_metadata", None),
    ("min.insync.replicas: 2", "min_insync_replicas: 2", "E126", "min_insync_replicas", "min.insync.replicas"),
    ("min.insync.replicas: 2", "min.insync.replicas: -1", "E126", "-1", None),
    ("c1r: {kind: consumer", "b1: {kind: consumer", "E134", "b1", None),
    ("c1r: {kind: consumer", "c1r: {kind: reader", "E110", "reader", None),
    ("c1r: {kind: consumer, topic: t", "c1r: {kind: consumer, topic: u", "E131", "u", None),
    ("p2: {kind: producer, topic: t", "p2: {kind: producer, topic: t, rate: fast", "E123", "fast", None),
    ("p2: {kind: producer, topic: t", "p2: {kind: producer, topic: t, size: huge", "E123", "huge", None),
    (
        "p2: {kind: producer",
        "p2: {rate: 99999999999999999999/s, kind: producer",
        "E112",
        "99999999999999999999/s",
        None,
    ),
    ("p2: {kind: producer", "p2: {size: 99999999999999999999, kind: producer", "E112", "99999999999999999999", None),
    ("p2: {kind: producer, topic: t", "p2: {kind: producer, topic: t, prefix: r", "E134", "r", None),
    ("p2: {kind: producer, topic: t", "p2: {kind: producer, topic: t, config: {ack: 1}", "E126", "ack", "acks"),
    (
        "p2: {kind: producer, topic: t",
        "p2: {kind: producer, topic: t, config: {delivery.timeout.ms: 10}",
        "E126",
        "delivery.timeout.ms",
        None,
    ),
    ("expect: {verdict: ok}", "expect: {verdict: [lost, gone]}", "E110", "gone", None),
    ("expect: {verdict: ok}", "expect: {records: {lost: q0..q3}}", "E131", "q0..q3", None),
    ("expect: {verdict: ok}", "expect: {records: {lost: r9..r0}}", "E124", "r9..r0", None),
    ("expect: {verdict: ok}", "expect: {records: {lost: r0..r99999999}}", "E124", "r0..r99999999", None),
    ("expect: {verdict: ok}", "expect: {logs: {t-1: r0}}", "E132", "t-1", None),
    ("expect: {verdict: ok}", "expect: {events: [{event: leader_electd}]}", "E131", "leader_electd", "leader_elected"),
    ("expect: {verdict: ok}", "expect: {events: [{never: isr_committed, isr: [b9]}]}", "E131", "b9", None),
    ("expect: {verdict: ok}", "expect: {events: [{event: leader_elected, acks: 1}]}", "E104", "acks", None),
    ("expect: {verdict: ok}", "expect: {errors: {p1: {NOT_ENOUGH: 1}}}", "E110", "NOT_ENOUGH", None),
    ("expect: {verdict: ok}", "expect: {latency: {p1: {worst: {at_most: 1s}}}}", "E110", "worst", None),
    ("expect: {verdict: ok}", "expect: {unavailable: {t-0: {writes: [{from: 2s, to: 1s}]}}}", "E112", "to", None),
    ("expect: {verdict: ok}", "expect: {state: {b9: {running: true}}}", "E131", "b9", None),
]


@pytest.mark.parametrize(
    ("step", "title"),
    [
        ("set_config: {topic: t, config: {min.insync.replicas: 1}}", None),
        ("set_config: {brokers: b1, config: {leader.replication.throttled.rate: 1000}}", "`set_config` of brokers is"),
        ("update_features: {features: {transaction.version: 1}}", "`update_features` is"),
        ("throttle: {brokers: b3, rate: 80kB/s}", "`throttle` is"),
        ("reassign: {partition: t-0, to: [b1, b3]}", "`reassign` is"),
        ("cancel_reassign: t-0", "`cancel_reassign` is"),
    ],
)
def test_in_the_zookeeper_era_an_operator_may_change_topics_only(step: str, title: str | None) -> None:
    text = file_of(f"{{at: 5s, {step}}}").replace("title: Small", "title: Small\nprofile: kafka-2.0")
    expected = [] if title is None else [f"{title} not yet supported in the ZooKeeper era"]
    assert [error.title for error in errors_of(text)] == expected


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [("transaction.versions", "transaction.version"), ("group_version", "group.version"), ("nothing.of.it", None)],
)
def test_a_feature_that_kafka_does_not_have_is_an_error(name: str, suggestion: str | None) -> None:
    (error,) = errors_of(file_of(f"{{at: 5s, update_features: {{features: {{{name}: 1}}}}}}"))
    assert (error.code, caret_text(error), error.suggestion) == ("E131", name, suggestion)
    assert error.label.startswith("Kafka has ") == (suggestion is None)


@pytest.mark.parametrize(
    ("old", "new", "caret", "label"),
    [
        ("topic: t}", "topic: t, config: {group.id: g}}", "group.id", "members of groups are `kind: transform`"),
        (
            "topic: t}",
            "topics: {pattern: t}}",
            "{pattern: t}",
            "patterns are for `kind: transform`, a member of a group",
        ),
        ("topic: t}", "topic: t, config: {group.idd: g}}", "group.idd", "no such key"),
    ],
)
def test_a_consumer_is_in_no_group(old: str, new: str, caret: str, label: str) -> None:
    head = HEAD.replace(f"c1r: {{kind: consumer, {old}", f"c1r: {{kind: consumer, {new}")
    (error,) = errors_of(file_of(head=head))
    assert (caret_text(error), error.label) == (caret, label)
    assert any("m1: {kind: transform," in note for note in error.notes) == (caret == "group.id")


def test_the_example_of_a_member_of_a_group_is_right() -> None:
    example = A_MEMBER[-1].removeprefix("help: ")
    head = HEAD.replace("  p1: ", f"  {example}\n  p1: ").replace("topics:\n", "topics:\n  out: {partitions: 1}\n")
    assert load_text(file_of(head=head), "test.yaml").scenario.workloads["m1"].config == {"group.id": "g"}


@pytest.mark.parametrize(
    ("old", "new", "caret", "label"),
    [
        ("p1: {kind: producer, topic: t", "p1: {kind: producer, topic: t, acks: 1", "acks", "belongs under `config:`"),
        ("topic: t}\n", "topic: t, fetch.min.bytes: 1}\n", "fetch.min.bytes", "belongs under `config:`"),
        ("topic: t}\n", "topic: t, group.id: g}\n", "group.id", "members of groups are `kind: transform`"),
        (
            "config: {min.insync.replicas: 2}",
            "min.insync.replicas: 2",
            "min.insync.replicas",
            "belongs under `config:`",
        ),
        ("{rack: A}", "{rack: A, num.io.threads: 1}", "num.io.threads", "belongs under `config:`"),
        ("cluster:\n", "cluster:\n  num.io.threads: 1\n", "num.io.threads", "belongs under `config:`"),
        ("cluster:\n", "cluster:\n  topics: {}\n", "topics", "belongs at the top of the file, beside `cluster:`"),
        ("cluster:\n", "brokers: {}\ncluster:\n", "brokers", "belongs under `cluster:`"),
        ("cluster:\n", "jitter: 1ms\ncluster:\n", "jitter", "belongs under `network:`"),
        (
            "cluster:\n",
            "min.insync.replicas: 1\ncluster:\n",
            "min.insync.replicas",
            "belongs under `config:` of `cluster` or a topic",
        ),
        ("cluster:\n", "producers: {}\ncluster:\n", "producers", "did you mean `workloads`?"),
        ("cluster:\n", "consumers: {}\ncluster:\n", "consumers", "did you mean `workloads`?"),
        ("cluster:\n", "clients: {}\ncluster:\n", "clients", "did you mean `workloads`?"),
        ("cluster:\n", "config: {}\ncluster:\n", "config", "no such field"),
    ],
)
def test_a_key_one_level_too_high_or_too_low_hears_where_it_belongs(old: str, new: str, caret: str, label: str) -> None:
    consumer = new.startswith("topic: t,")
    head = HEAD.replace(f"c1r: {{kind: consumer, {old}", f"c1r: {{kind: consumer, {new}") if consumer else HEAD
    head = head if consumer else head.replace(old, new, 1)
    assert head != HEAD
    (error,) = errors_of(file_of(head=head))
    assert (error.code, caret_text(error), error.label) == ("E104", caret, label)


@pytest.mark.parametrize(
    ("old", "new", "label"),
    [
        ("brokers: {b1: {rack: A}, b2: {rack: B}, b3: {rack: B}}", "brokers: [b1, b2]", "write {b1: {}, b2: {}}"),
        (
            "brokers: {b1: {rack: A}, b2: {rack: B}, b3: {rack: B}}",
            "brokers: [b1, b2, b3]",
            "write {b1: {}, b2: {}, ...}",
        ),
        (
            "brokers: {b1: {rack: A}, b2: {rack: B}, b3: {rack: B}}",
            "brokers:\n  - {id: b1, rack: A}\n  - b2: {rack: B}\n",
            "write {b1: {...}, b2: {...}}",
        ),
        (
            "  t: {partitions: {0: [b1, b2, b3]}, config: {min.insync.replicas: 2}}\n",
            "  - t\n",
            "write {t: {partitions: 1}}",
        ),
        (
            "  t: {partitions: {0: [b1, b2, b3]}, config: {min.insync.replicas: 2}}\n",
            "  - {name: t, partitions: 1}\n",
            "write {t: {...}}",
        ),
        ("config: {min.insync.replicas: 2}", "config: [min.insync.replicas: 2]", "write {min.insync.replicas: 2}"),
    ],
)
def test_a_list_where_a_mapping_is_needed_is_shown_as_one(old: str, new: str, label: str) -> None:
    assert HEAD.count(old) == 1
    (error,) = errors_of(file_of(head=HEAD.replace(old, new)))
    assert (error.code, error.label) == ("E111", f"{label}: no list, one key for each")


@pytest.mark.parametrize("items", ["[]", "[1, {rack: A, disk: {}}]", "[[b1]]", "['b 1']"])
def test_a_list_without_names_hears_that_a_mapping_has_one_key_for_each(items: str) -> None:
    head = HEAD.replace("{b1: {rack: A}, b2: {rack: B}, b3: {rack: B}}", items)
    assert errors_of(file_of(head=head))[0].label == "one key for each, with its settings below it"


ONE_BEFORE = "1 space before it, the line above has 2: neighbours begin in one column"
THREE_BEFORE = "3 spaces before it, the line above has 4: neighbours begin in one column"
TWO_BEFORE = "2 spaces before it, the line above has none: neighbours begin in one column"
SECOND_COLON = "a second colon in one line: quote the text, or begin a new line for the next key"


@pytest.mark.parametrize(
    ("text", "line", "label"),
    [
        ("title: East: outage\n", 1, 'quote a text with a colon: title: "East: outage"'),
        ("title: East: outage # of May\n", 1, 'quote a text with a colon: title: "East: outage"'),
        ('title: the "East": outage\n', 1, SECOND_COLON),
        ("sources:\n  - ref: KIP-1: x\n", 2, 'quote a text with a colon: ref: "KIP-1: x"'),
        ("timeline:\n- at: 5s kill: b1\n", 2, SECOND_COLON),
        ("schema: 1\n  id: x\n", 2, TWO_BEFORE),
        ("schema: 1\n\n# next\n  id: x\n", 4, TWO_BEFORE),
        ("topics:\n  t: {a: 1}\n u: {a: 1}\n", 3, ONE_BEFORE),
        ("timeline:\n  - {at: 1s}\n - {at: 2s}\n", 3, ONE_BEFORE),
        ("cluster:\n  brokers:\n    b1: {}\n   config: {}\n", 4, THREE_BEFORE),
        ("title: East\n  West: x\n", 2, f"{TWO_BEFORE}, and a text with a colon is quoted"),
        ("schema: 1\nid:x\ntitle: y\n", 3, "line 2 is no `key: value`: a colon with a space after it is missing"),
        ("topics: {t: {a: 1}\n u: 1\n", 2, "here"),
        ("topics: {t: {a: 1}\nworkloads: {}\n", 2, "here"),
        ('title: "East" outage\n', 1, "here"),
        ('title: "East": outage\n', 1, "here"),
        ("title: 'East\n", 2, "here"),
    ],
)
def test_a_slip_of_yaml_has_its_usual_fix_where_the_line_shows_it(text: str, line: int, label: str) -> None:
    (error,) = errors_of(text)
    assert error.code == "E103" and error.place is not None
    assert (error.place.line + 1, error.label) == (line, label)


@pytest.mark.parametrize(
    ("old", "new", "title"),
    [
        ("{0: [b1, b2, b3]}", f"1{'0' * 20}", f"`partitions` is 1{'0' * 20}; it cannot be above 1,000"),
        ("{0: [b1, b2, b3]}", f"1{'0' * 99}", f"`partitions` is 1{'0' * 36}...; it cannot be above 1,000"),
        ("duration: 60s", "duration: 1e400s", "`duration`: `1e400s` is longer than 30 days"),
    ],
)
def test_a_number_of_many_digits_hears_its_bound(old: str, new: str, title: str) -> None:
    (error,) = errors_of(file_of(head=HEAD.replace(old, new)))
    assert error.title == title


def test_missing_keys_are_all_given_with_values_that_will_do() -> None:
    text = file_of().replace("schema: 1\nid: small\n", "").replace("duration: 60s\n", "")
    (error,) = errors_of(text)
    assert error.title == "missing `schema`, `id`, `duration` in the scenario"
    assert error.label == "add `schema: 1`, `id: my-first`, `duration: 60s`"
    (error,) = errors_of(file_of().replace("p2: {kind: producer, topic: t}", "p2: {}"))
    assert error.label == "add `kind: producer`, `topic: t`"


def test_the_examples_of_missing_keys_make_a_scenario() -> None:
    assert errors_of("".join(f"{key}: {value}\n" for key, value in REQUIRED_FIELDS.items())) == ()


@pytest.mark.parametrize(
    ("profile", "label"),
    [
        ("kafka-3.7", "no era of its own: it lies between `kafka-3.5` and `kafka-3.9`"),
        ("3.7.1", "no era of its own: it lies between `kafka-3.5` and `kafka-3.9`"),
        ("kafka-1.1", "no era of its own: it lies between `kafka-0.11` and `kafka-2.0`"),
        ("kafka-0.9", "no era of its own: it lies between `kafka-0.8` and `kafka-0.10`"),
        ("kafka-4.2", "the newest era is `kafka-4.1`"),
        ("kafka-0.7", "the oldest era is `kafka-0.8`"),
        ("3.9", "did you mean `kafka-3.9`?"),
        ("kafka-3.9.1", "did you mean `kafka-3.9`?"),
        ("kafka3.9", "did you mean `kafka-3.9`?"),
    ],
)
def test_a_release_without_an_era_hears_its_neighbours(profile: str, label: str) -> None:
    (error,) = errors_of(file_of().replace("title: Small", f"title: Small\nprofile: {profile}"))
    assert (error.code, caret_text(error), error.label) == ("E110", profile, label)


def test_a_release_between_two_eras_hears_what_changed_between_them() -> None:
    (error,) = errors_of(file_of().replace("title: Small", "title: Small\nprofile: kafka-3.7"))
    assert "`hw-advance`: KAFKA-15583 (3.7); `transactions`: KIP-98 (0.11), KIP-890" in error.notes[-1]


@pytest.mark.parametrize(("profile", "found"), [("kafka-3.9", ["E120"]), ("kafka-4.1", [])])
def test_groups_have_settings_since_4_0(profile: str, found: list[str]) -> None:
    step = "{at: 5s, set_config: {group: g, config: {consumer.session.timeout.ms: 50000}}}"
    text = file_of(step).replace("title: Small", f"title: Small\nprofile: {profile}")
    assert [error.code for error in errors_of(text)] == found


@pytest.mark.parametrize(
    ("old", "new", "code", "caret", "suggestion"), SINGLE_ERRORS, ids=[case[1] for case in SINGLE_ERRORS]
)
def test_one_mistake_in_the_file_is_one_error_in_its_place(
    old: str, new: str, code: str, caret: str, suggestion: str | None
) -> None:
    text = file_of()
    assert text.count(old) == 1
    (error,) = [found for found in errors_of(text.replace(old, new)) if found.code == code] or [None]
    assert error is not None, [render(found) for found in errors_of(text.replace(old, new))]
    assert caret_text(error) == caret
    if suggestion is not None:
        assert error.suggestion == suggestion


STEP_ERRORS = [
    ("{at: 1s}", "E135", "{at: 1s}"),
    ("{kill: b1}", "E135", "{kill: b1}"),
    ("{at: 1s, when: {t-0: {leader: b1}}, kill: b1}", "E135", "when"),
    ("{at: 1s, kill: b1, stop: b2}", "E135", "stop"),
    ("{at: 1s, timeout: 5s, kill: b1}", "E135", "timeout"),
    ("{at: 1s, every: 5s, kill: b1}", "E135", "every"),
    ("{at: 1s, for: 5s, start: b1}", "E135", "for"),
    ("{at: 1s, crash: b1}", "E104", "crash"),
    ("{at: 1s, kill: b9}", "E131", "b9"),
    ('{at: 1s, kill: "@victim"}', "E133", '"@victim"'),
    ("{at: 1s, kill: leader}", "E125", "leader"),
    ("{at: 1s, kill: lead(t-0)}", "E125", "lead(t-0)"),
    ("{at: 1s, kill: leader(t)}", "E125", "leader(t)"),
    ("{at: 1s, kill: leader(u-0)}", "E131", "leader(u-0)"),
    ("{at: 1s, kill: leader(t-7)}", "E132", "leader(t-7)"),
    ('{at: 1s, kill: "follower(t-0,0)"}', "E125", '"follower(t-0,0)"'),
    ("{at: 1s, kill: rack(C)}", "E131", "rack(C)"),
    ("{at: 1s, kill: none}", "E125", "none"),
    ("{at: 1s, power_off: p1}", "E131", "p1"),
    ("{at: 1s, partition: [[b1]]}", "E105", "[[b1]]"),
    ("{at: 1s, partition: [[b1], [b1, b2]]}", "E134", "[[b1], [b1, b2]]"),
    ("{at: 1s, cut: {between: [b1]}}", "E111", "[b1]"),
    ("{at: 1s, cut: {between: [b1, b2], direction: away}}", "E110", "away"),
    ("{at: 1s, heal: split}", "E131", "split"),
    ("{at: 1s, loss: {between: [b1, b2], rate: 110%}}", "E123", "110%"),
    ("{at: 1s, hold: {from: b1, to: b2, api: Fetsch}}", "E110", "Fetsch"),
    ("{at: 1s, tear: {broker: b1, partition: t-0, bytes: -3}}", "E123", "-3"),
    ("{at: 1s, produce: {from: c1r, count: 1}}", "E131", "c1r"),
    ("{at: 1s, produce: {from: p1, count: 0}}", "E112", "0"),
    ("{at: 1s, produce: {from: p1, count: 1, partition: 3}}", "E132", "partition"),
    ("{at: 1s, seek: {consumer: c1r, partition: t-0, to: -5}}", "E112", "-5"),
    ("{at: 1s, bitflip: {broker: b1, partition: t-0}}", "E105", "{broker: b1, partition: t-0}"),
    ("{at: 1s, bitflip: {broker: p1, partition: t-0, offset: 5}}", "E131", "p1"),
    ("{at: 1s, fill_disk: {brokers: b1, log_dir: d2}}", "E131", "d2"),
    ("{at: 1s, fail_disk: b1, for: 1s}", "E135", "for"),
    ("{at: 1s, slow_disk: {brokers: b1}}", "E105", "{brokers: b1}"),
    ("{at: 1s, slow_disk: {brokers: b1, append: 0s}}", "E112", "0s"),
    ("{at: 1s, bump_clock: {brokers: b1, by: 60}}", "E121", "60"),
    ("{at: 1s, bump_clock: {brokers: b1, by: -0s}}", "E112", "-0s"),
    ("{at: 1s, strobe_clock: {brokers: b1, by: 1s, period: 1us}}", "E112", "1us"),
    ("{at: 1s, check: {}}", "E105", "{}"),
    ("{at: 1s, check: {end_offset: {consumer: p1, partition: t-0}}}", "E131", "p1"),
    ("{when: {t-0: {leeder: b1}}, kill: b1}", "E104", "leeder"),
    ("{when: {t-0: {hw: -1}}, kill: b1}", "E112", "-1"),
    ("{at: 1s, start: b1}", "E130", "start"),
    ("{at: 1s, wipe: b1}", "E130", "wipe"),
    ("{at: 1s, kill: b1, every: 1ms, times: 10001}", "E112", "10001"),
]


@pytest.mark.parametrize(("step", "code", "caret"), STEP_ERRORS, ids=[case[0] for case in STEP_ERRORS])
def test_one_mistake_in_a_step_is_one_error_in_its_place(step: str, code: str, caret: str) -> None:
    errors = errors_of(file_of(step))
    assert [error.code for error in errors] == [code], [render(error) for error in errors]
    assert caret_text(errors[0]) == caret


def test_a_client_that_takes_the_name_of_the_unnamed_controller_hears_where_the_name_comes_from() -> None:
    (error,) = errors_of(file_of().replace("c1r: {kind: consumer", "c1: {kind: consumer"))
    assert error.code == "E134"
    assert any("the file names no controller, so it is called `c1`" in note for note in error.notes)


def test_a_latency_with_an_unknown_key_is_one_mistake() -> None:
    (error,) = errors_of(file_of().replace("workloads:", "network: {latency: {max: 50ms}}\nworkloads:"))
    assert (error.code, caret_text(error), error.suggestion) == ("E104", "max", "uniform")


@pytest.mark.parametrize("step", ["latency: {between: [b1, b2], max: 50ms}", "loss: {between: [b1, b2], share: 5%}"])
def test_a_link_with_an_unknown_key_is_one_mistake(step: str) -> None:
    (error,) = errors_of(file_of(f"{{at: 1s, {step}}}"))
    assert (error.code, caret_text(error)) == ("E104", "max" if "max" in step else "share")


def test_who_elects_a_leader_means_the_broker() -> None:
    (error,) = errors_of(file_of("{at: 1s, elect: {partition: t-0, leader: b2}}"))
    assert (error.code, caret_text(error), error.suggestion) == ("E104", "leader", "broker")


def test_all_errors_come_at_once_sorted_by_line() -> None:
    screen = (GOLDEN / "tired-student.txt").read_text()
    lines = [int(found) for found in re.findall(r"--> tired-student.yaml:(\d+)", screen)]
    assert lines == sorted(lines)
    assert len(lines) > 7


def test_every_code_that_is_raised_is_explained() -> None:
    package = Path(explain.__code__.co_filename).parent
    used = {code for path in package.glob("*.py") for code in re.findall(r'"([EW]\d{3})"', path.read_text())}
    assert used <= set(EXPLANATIONS)
    assert set(EXPLANATIONS) <= used | {"E103"}
    assert explain("e104") is not None
    assert explain("E999") is None


def test_synonyms_come_before_spelling() -> None:
    fields = ("partitions", "replication_factor", "config", "min.insync.replicas")
    assert did_you_mean("replicas", fields, FIELD_SYNONYMS) == "replication_factor"
    assert did_you_mean("rf", fields, FIELD_SYNONYMS) == "replication_factor"
    assert did_you_mean("min-isr", fields, FIELD_SYNONYMS) == "min.insync.replicas"
    assert did_you_mean("Partition", fields, FIELD_SYNONYMS) == "partitions"
    assert did_you_mean("zebra", fields, FIELD_SYNONYMS) is None


def test_reading_ends_when_there_are_too_many_mistakes() -> None:
    errors = errors_of(file_of(*(f"{{at: 1s, kil{number}: b1}}" for number in range(1900))))
    assert len(errors) == KEPT_AT_MOST + 1
    assert "... and 401 more" in format_text("test.yaml", errors)
    assert [error.code for error in errors_of(file_of(*["{at: 1s, kill: b1}"] * 2001))] == ["E140"]


# ------------------------------------------------------------------------------------------------------------ formats


def test_json_format_holds_all_that_the_screen_shows() -> None:
    errors = errors_of(file_of("{at: 1500, kill: b1}"))
    document = json.loads(format_json([("test.yaml", errors)]))
    assert document["errors"] == 1
    assert document["files"][0]["valid"] is False
    found = document["files"][0]["diagnostics"][0]
    expected = {"code": "E121", "severity": "error", "line": 14, "column": 10, "length": 4, "path": "timeline.1.at"}
    assert {key: found[key] for key in expected} == expected
    assert found["suggestion"] == "1500ms"


def test_github_format_escapes_what_would_end_the_command() -> None:
    errors = errors_of(file_of("{at: 1s, loss: {between: [b1, b2], rate: 110%}}"))
    assert format_github(errors) == (
        "::error file=test.yaml,line=14,col=46,title=E123::`rate`: `110%25` is not a percentage (write 10%25 or 0.5%25)"
    )


# ------------------------------------------------------------------------------------------------------ hostile input


def one_error(path: Path) -> str:
    """The only diagnostic of a file, as its code; no traceback, nothing left behind."""
    before = sorted(path.parent.rglob("*"))
    (found,) = check_file(path)
    assert sorted(path.parent.rglob("*")) == before
    render(found)
    return found.code


def test_a_file_of_100_mb_is_refused_by_its_size(tmp_path: Path) -> None:
    path = tmp_path / "big.yaml"
    with path.open("wb") as stream:
        stream.truncate(100 << 20)  # sparse: the size is judged, not a byte is read
    assert one_error(path) == "E102"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\n", "E108"),
        ("[" * 10_000, "E102"),
        ("{a: " * 10_000, "E102"),
        ("- " * 10_000, "E102"),
        ("x: [" + "a, " * 60_000 + "a]", "E102"),
        ("x: " + "y" * 500_000, "E102"),
        ("<<: {a: b}\nschema: 1", "E104"),
        ("- a\n- b\n", "E111"),
        ("", "E111"),
        ("just words", "E111"),
        ("? [a]\n: b", "E111"),
        ("schema: 1\n---\nschema: 1\n", "E103"),
        ("schema: [1", "E103"),
        ("schema: 'x", "E103"),
        ("schema: 1\ncluster:\n\tbrokers: {}\n", "E106"),
        ("schema: \x00", "E103"),
        ("schema: *nowhere", "E108"),
        ("!!binary aGk=", "E109"),
    ],
)
def test_text_that_is_no_scenario(text: str, code: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    found = check_file(path)
    assert found[0].code == code
    assert all(render(diagnostic) for diagnostic in found)


def test_what_is_no_plain_readable_text_file(tmp_path: Path) -> None:
    latin = tmp_path / "latin.yaml"
    latin.write_bytes(b"title: caf\xe9\n")
    assert one_error(latin) == "E101"
    assert one_error(tmp_path / "missing.yaml") == "E101"
    assert check_file(tmp_path)[0].code == "E101"
    assert check_file("nul\x00byte.yaml")[0].code == "E101"


def test_carriage_returns_do_not_move_the_caret() -> None:
    errors = errors_of(file_of("{at: 1s, kill: b9}").replace("\n", "\r\n"))
    assert [(error.where, caret_text(error)) for error in errors] == [("test.yaml:14:20", "b9")]


@given(st.text(alphabet=st.sampled_from("ab:{}[]-,'\"#&*!?|>%@` \n\t01.~\\"), max_size=80))
def test_no_text_breaks_the_loader(text: str) -> None:
    """Either a scenario or diagnostics that can be printed; never another exception."""
    for whole in (text, HEAD + text, file_of() + text, HEAD + f"timeline: {text}\n" + PLAIN_EXPECT):
        try:
            load_text(whole, "fuzz.yaml")
        except ScenarioInvalid as invalid:
            assert invalid.diagnostics
            screen = format_text(invalid.file, invalid.diagnostics)
            assert "\x1b" not in screen
            assert all(len(line) <= 80 for line in screen.splitlines() if "|" in line[:8])
            format_github(invalid.diagnostics)


def test_the_golden_files_are_the_only_ones_that_do_not_load() -> None:
    with pytest.raises(ScenarioInvalid, match=r"Found \d+ errors .*Nothing was run\."):
        load_file(GOLDEN / "hostile.yaml")


VICTIM = '{at: 1s, kill: "leader(t-0)", as: v}'
NEEDLESS = [
    (("{at: 1s, kill: b1}", "{at: 2s, kill: b1}"), "W205", "step 2 would kill b1, which is down since step 1"),
    (("{at: 1s, kill: b1}", "{at: 2s, start: b1}", "{at: 3s, kill: b1}"), None, ""),
    (("{at: 1s, stop: b1}", "{at: 1.1s, kill: b1}"), None, ""),
    (("{at: 1s, kill: b1}", "{at: 2s, power_off: b1}"), None, ""),
    (("{at: 1s, resume: b1}", "{at: 2s, pause: b1}"), "W205", "step 1 resumes b1, which nothing has paused"),
    (("{at: 1s, pause: b1, for: 9s}", "{at: 2s, resume: b1}"), None, ""),
    (('{at: 1s, pause: "leader(t-0)"}', "{at: 2s, resume: b1}"), None, ""),
    (("{at: 1s, kill: b1}", "{at: 2s, restart: b1}", "{at: 3s, kill: b1}"), None, ""),
    (("{at: 1s, kill: b1}", "{at: 2s, kill: brokers}"), None, ""),
    (
        ("{at: 1s, kill: brokers}", '{at: 2s, kill: "others(b1)"}'),
        "W205",
        "step 2 would kill b2, b3, which are down since step 1",
    ),
    ((VICTIM, '{at: 2s, kill: "@v"}'), "W205", "step 2 would kill @v, which is down since step 1"),
    (("{at: 1s, kill: b1, as: v}", '{at: 2s, kill: "@v"}'), "W205", "step 2 would kill b1, which is down since step 1"),
    ((VICTIM, '{at: 2s, start: "@v"}', '{at: 3s, kill: "@v"}'), None, ""),
    ((VICTIM, "{at: 2s, start: b1}", '{at: 3s, kill: "@v"}'), None, ""),
    ((VICTIM, "{at: 2s, kill: b1}", "{at: 3s, start: b1}", '{at: 4s, start: "@v"}'), None, ""),
    (
        (VICTIM, '{at: 4s, kill: "leader(t-0)"}'),
        "W205",
        "step 2 would kill the same broker 3 s after step 1: leader(t-0) is the dead one until its session of 9 s ends",
    ),
    ((VICTIM, '{at: 2s, start: "@v"}', '{at: 9s, start: "@v"}'), None, ""),
    ((VICTIM, '{at: 11s, kill: "leader(t-0)"}'), None, ""),
    ((VICTIM, "{at: 2s, elect: {partition: t-0, unclean: true}}", '{at: 4s, kill: "leader(t-0)"}'), None, ""),
]


@pytest.mark.parametrize(("steps", "code", "title"), NEEDLESS)
def test_a_step_that_changes_nothing_is_a_warning(steps: tuple[str, ...], code: str | None, title: str) -> None:
    warnings = load_text(file_of(*steps), "test.yaml").warnings
    found = [(one.code, one.title) for one in warnings if one.code in ("W205", "W207")]
    assert found == ([(code, title)] if code else [])


@pytest.mark.parametrize(
    ("steps", "code", "title"),
    [
        (
            ('{at: 9s, kill: "leader(t-0)", as: v}', '{at: 2s, start: "@v"}'),
            "E133",
            "step 2 uses `@v` before step 1 chooses it",
        ),
        (
            ('{at: 1s, start: "@v"}', '{at: 1s, kill: "leader(t-0)", as: v}'),
            "E133",
            "step 1 uses `@v` before step 2 chooses it",
        ),
        (
            ('{at: 1s, pause: "leader(t-0)", as: v}', '{at: 2s, start: "@v"}'),
            "E130",
            "step 2 would start @v, which is not down then",
        ),
        (
            ("{at: 1s, kill: b1, for: 2s}", "{at: 9s, start: b1}"),
            "E130",
            "step 2 would start b1, which is not down then",
        ),
        (
            ("{at: 1s, create_topic: t}", "{at: 9s, create_topic: t}"),
            "E130",
            "step 2 would make the topic `t`, which step 1 has made",
        ),
        (
            ("{at: 1s, create_topic: t, every: 5s, times: 2}",),
            "E130",
            "step 1 would make the topic `t`, which its first time has made",
        ),
        (
            ("{at: 9s, delete_topic: t}", "{at: 1s, delete_topic: t}"),
            "E130",
            "step 1 would delete the topic `t`, which step 2 has deleted",
        ),
        (
            ("{at: 1s, delete_topic: t}", "{at: 2s, create_topic: t}", "{at: 3s, create_topic: t}"),
            "E130",
            "step 3 would make the topic `t`, which step 2 has made",
        ),
        (
            ("{at: 1s, delete_topic: t, every: 5s, times: 2}",),
            "E130",
            "step 1 would delete the topic `t`, which its first time has deleted",
        ),
        (
            ("{at: 1s, delete_topic: u}",),
            "E131",
            "unknown topic `u`",
        ),
    ],
)
def test_a_step_that_comes_too_early_or_too_late_is_an_error(steps: tuple[str, ...], code: str, title: str) -> None:
    first, *_ = errors_of(file_of(*steps))
    assert (first.code, first.title) == (code, title)


@pytest.mark.parametrize(
    ("steps", "titles"),
    [
        (
            ("{at: 1s, delete_topic: t}", "{at: 2s, produce: {from: p1, count: 1}}"),
            ["step 2 sends to a topic that step 1 has deleted, and that no step makes"],
        ),
        (("{at: 2s, delete_topic: t}", "{at: 1s, produce: {from: p1, count: 1}}"), []),
        (
            ("{at: 1s, delete_topic: t}", "{at: 2s, produce: {from: p1, count: 1}}", "{at: 3s, create_topic: t}"),
            [],
        ),
    ],
)
def test_records_for_a_deleted_topic_are_a_mistake_unless_it_is_made_again(
    steps: tuple[str, ...], titles: list[str]
) -> None:
    warnings = load_text(file_of(*steps), "test.yaml").warnings
    assert [one.title for one in warnings if one.code == "W209"] == titles


ONE_ID = """\
schema: 1
id: one-id
title: One id
duration: 60s
cluster: {{brokers: {{b1: {{}}, b2: {{}}, b3: {{}}}}}}
topics: {{t: {{partitions: 1, replication_factor: 3, config: {{min.insync.replicas: 2}}}}}}
workloads:
  p1: {{kind: producer, topic: t, config: {{transactional.id: x}}}}
  p2: {{kind: producer, topic: t, {start}config: {{transactional.id: x}}}}
timeline: [{step}]
expect: {{verdict: ok}}
"""


@pytest.mark.parametrize(
    ("start", "step", "warns"),
    [("", "", True), ("start: 5s, ", "", False), ("", "{at: 5s, pause: p1}", False), ("", "{at: 5s, kill: b1}", True)],
)
def test_producers_that_begin_together_with_one_transactional_id_are_a_mistake(
    start: str, step: str, warns: bool
) -> None:
    warnings = load_text(ONE_ID.format(start=start, step=step), "test.yaml").warnings
    why = "`p1` and `p2` begin together with one transactional.id: the later one to ask for it fences the earlier"
    assert [one.title for one in warnings if one.code == "W210"] == ([why] if warns else [])


def test_a_warning_has_the_line_of_the_file_as_an_error_has() -> None:
    (warning,) = [
        one for one in load_text(ONE_ID.format(start="", step=""), "test.yaml").warnings if one.code == "W210"
    ]
    assert render(warning).splitlines()[2:] == [
        " --> test.yaml:9:43",
        "  |",
        "8 |   p1: {kind: producer, topic: t, config: {transactional.id: x}}",
        "9 |   p2: {kind: producer, topic: t, config: {transactional.id: x}}",
        "  |                                           ^^^^^^^^^^^^^^^^",
        "  |",
        "  = path: workloads.p2.config.transactional.id",
        "  = more: highwater explain W210",
    ]


def test_a_mistake_of_a_variant_names_the_variant() -> None:
    variant = "variants:\n  - {id: short, patch: {duration: 5s}, expect: {verdict: ok}}\n"
    text = file_of("{at: 9s, kill: b1}", "{at: 10s, kill: b1}") + variant
    found = {one.title: one for one in load_text(text, "test.yaml").warnings}
    assert found["step 2 would kill b1, which is down since step 1"].variants == ("base", "short")
    late = found["step 1 comes after the end of the run"]
    assert late.variants == ("short",) and "= only in variant short" in render(late)


@pytest.mark.parametrize(
    ("expected", "title"),
    [
        ("records: {lost: r4..r5}", "r5 is expected, but its producer sends 5 records in all"),
        ("records: {lost: {at_least: s0}}", "s0 is expected, but its producer sends 0 records in all"),
        ('logs: {t-0: "r0, r9"}', "r9 is expected, but its producer sends 5 records in all"),
        ("records: {lost: r0..r4, acked: {at_most: r0..r99}}", None),
    ],
)
def test_an_expected_record_that_is_never_sent_is_a_warning(expected: str, title: str | None) -> None:
    text = file_of("{at: 1s, produce: {from: p1, count: 5}}", expect=f"expect: {{verdict: ok, {expected}}}\n")
    found = [one.title for one in load_text(text, "test.yaml").warnings if one.code == "W207"]
    assert found == ([title] if title else [])


@pytest.mark.parametrize(
    ("arrival", "last"),
    [
        ("rate: 10/s, stop: 2s", 19),
        ("rate: 10/s, start: 500ms, stop: 2s", 14),
        ("rate: 3/1s, stop: 1s", 2),
        ("rate: 10/s, batch: 8, stop: 2s", 23),
        ("rate: 10/s", 589),
        ("poisson: 10/s, stop: 2s", None),
    ],
)
def test_a_rate_brings_so_many_records_and_no_more(arrival: str, last: int | None) -> None:
    head = HEAD.replace("p1: {kind: producer, topic: t", f"p1: {{kind: producer, topic: t, {arrival}")
    assert head != HEAD

    def warned(number: int) -> bool:
        expect = f"expect: {{verdict: ok, records: {{acked: {{at_least: r{number}}}}}}}\n"
        warnings = load_text(file_of(head=head, expect=expect), "test.yaml").warnings
        return any(one.code == "W207" for one in warnings)

    assert [warned(number) for number in (last or 0, (last or 10_000) + 1)] == [False, last is not None]


@pytest.mark.parametrize(
    ("profile", "title"),
    [
        ("kafka-4.1", "min.insync.replicas (4) counts as 3, the replication factor: one slow broker stops acks=all"),
        ("kafka-3.5", "no acks=all write is accepted: min.insync.replicas (4) is above the replication factor (3)"),
    ],
)
def test_a_min_isr_above_the_replication_factor_counts_as_that_factor_since_3_7(profile: str, title: str) -> None:
    head = HEAD.replace("min.insync.replicas: 2", "min.insync.replicas: 4") + f"profile: {profile}\n"
    (warning,) = [one for one in load_text(file_of(head=head), "test.yaml").warnings if one.code == "W202"]
    assert warning.title == title


def test_a_cropped_line_has_dots_where_it_goes_on() -> None:
    before, after = "{at: 1s, kill: b1}, " * 20, ", {at: 1s, kill: b2}" * 20
    text = f"{HEAD}timeline: [{before}{{at: 2s, kil: b1}}{after}]\n{PLAIN_EXPECT}"
    error = next(one for one in errors_of(text) if one.code == "E104")
    lines = render(error).splitlines()
    (shown,) = [line.partition("| ")[2] for line in lines if "kil:" in line]
    (carets,) = [line.partition("| ")[2] for line in lines if "^" in line]
    assert shown.startswith("...") and shown.endswith("...") and len(shown) == 75
    assert shown[carets.index("^") :].startswith("kil:")
    assert [note.split(":")[1] for note in error.notes] == [" a step has one verb", " and beside it"]


@pytest.mark.parametrize(
    ("old", "new", "title"),
    [
        ("{b1: {rack: A}, b2: {rack: B}, b3: {rack: B}}", "[b1, b2, b3]", "`brokers` must be a mapping, not a list"),
        ("b3", "all", "`all` is a word of the language, not a name"),
    ],
)
def test_who_uses_what_could_not_be_read_is_not_to_blame(old: str, new: str, title: str) -> None:
    text = file_of("{at: 1s, kill: b3}", "{at: 2s, elect: {partition: t-0}}", "{at: 3s, start: b3}")
    assert old in text
    assert [error.title for error in errors_of(text.replace(old, new))] == [title]


@pytest.mark.parametrize(
    ("brokers", "config", "titles"),
    [
        (2, "{transactional.id: T}", ["`p1` waits for ever: __transaction_state cannot be made on 2 brokers with "
         "transaction.state.log.replication.factor=3"]),
        (3, "{transactional.id: T}", []),
        (2, "{}", []),
    ],
)  # fmt: skip
def test_a_coordinator_that_cannot_come_to_be_is_a_warning(brokers: int, config: str, titles: list[str]) -> None:
    nodes = [f"b{number}" for number in range(1, brokers + 1)]
    text = (
        "schema: 1\nid: small\ntitle: Small\nduration: 60s\n"
        f"cluster: {{brokers: {{{', '.join(f'{node}: {{}}' for node in nodes)}}}}}\n"
        f"topics: {{t: {{partitions: {{0: [{', '.join(nodes)}]}}}}}}\n"
        f"workloads: {{p1: {{kind: producer, topic: t, config: {config}}}}}\n"
        "timeline: []\nexpect: {verdict: ok}\n"
    )
    found = load_text(text, "test.yaml")
    assert [one.title for one in found.warnings if one.code == "W208"] == titles
    enough = text.replace("cluster: {", "cluster: {config: {transaction.state.log.replication.factor: 1}, ")
    assert not [one for one in load_text(enough, "test.yaml").warnings if one.code == "W208"]


@pytest.mark.parametrize(("client", "is_warned_of"), [("p1", False), ("default", False), ("p9", True)])
def test_a_quota_of_a_client_that_is_not_there_is_a_warning(client: str, is_warned_of: bool) -> None:
    text = file_of(f"{{at: 1s, set_quota: {{client: {client}, quota: {{producer_byte_rate: 1000}}}}}}")
    found = [one.title for one in load_text(text, "test.yaml").warnings if one.code == "W205"]
    assert found == (
        ["step 1 changes nothing: no workload is called p9; there are p1, p2, c1r"] if is_warned_of else []
    )

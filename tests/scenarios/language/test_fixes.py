"""Usual mistakes hear how to mend them: misplaced and missing keys, lists, slips of YAML, huge numbers, releases."""

from __future__ import annotations

import pytest
from small_scenario import HEAD, caret_text, errors_of, file_of

from scenarios.language.diagnostics import format_text
from scenarios.language.parse.loading import REQUIRED_FIELDS, load_text
from scenarios.language.parse.workloads import A_MEMBER


@pytest.mark.parametrize(
    ("old", "new", "caret", "label"),
    [
        ("topic: t}", "topic: t, config: {group.id: g}}", "group.id", "write a group member as `kind: transform`"),
        (
            "topic: t}",
            "topics: {pattern: t}}",
            "{pattern: t}",
            "only `kind: transform`, a member of a group, can have a pattern",
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
        ("topic: t}\n", "topic: t, group.id: g}\n", "group.id", "write a group member as `kind: transform`"),
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
    assert (error.code, error.label) == ("E111", f"{label}, not a list")


@pytest.mark.parametrize("items", ["[]", "[1, {rack: A, disk: {}}]", "[[b1]]", "['b 1']"])
def test_a_list_without_names_hears_that_a_mapping_has_one_key_for_each(items: str) -> None:
    head = HEAD.replace("{b1: {rack: A}, b2: {rack: B}, b3: {rack: B}}", items)
    assert errors_of(file_of(head=head))[0].label == "use one key for each item, with its settings below it"


ONE_BEFORE = "this line is indented by 1 space, the line above by 2: align them"
THREE_BEFORE = "this line is indented by 3 spaces, the line above by 4: align them"
TWO_BEFORE = "this line is indented by 2 spaces, the line above by none: align them"
NO_PAIR = "line {} is not `key: value`: add the colon and a space, or the `#` of a comment"
SECOND_COLON = "this is a second colon in one line: quote the text, or put the next key on a new line"


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
        ("title: East\n  West: x\n", 2, f"{TWO_BEFORE}; quote a text with a colon"),
        ("schema: 1\nid:x\ntitle: y\n", 3, NO_PAIR.format(2)),
        ("timeline:\n  - {at: 1s}\n  then b1 dies\n  - {at: 2s}\n", 4, NO_PAIR.format(3)),
        ("timeline:\n  - {at: 1s}\n    then b1 dies\n  - {at: 2s}\n", 3, NO_PAIR.format(3)),
        ("My first scenario\nschema: 1\n", 2, NO_PAIR.format(1)),
        ("# of May\nMy first scenario\n# and last\n\nschema: 1\n", 5, NO_PAIR.format(2)),
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
        ("kafka-3.7", "choose the era before or after this release: `kafka-3.5` or `kafka-3.9`"),
        ("3.7.1", "choose the era before or after this release: `kafka-3.5` or `kafka-3.9`"),
        ("kafka-1.1", "choose the era before or after this release: `kafka-0.11` or `kafka-2.0`"),
        ("kafka-0.9", "choose the era before or after this release: `kafka-0.8` or `kafka-0.10`"),
        ("kafka-4.5", "the newest era is `kafka-4.4`"),
        ("kafka-4.0", "choose the era before or after this release: `kafka-3.9` or `kafka-4.1`"),
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
    switches = ("`hw-advance`: KAFKA-15583 (3.7)", "`transactions`: KIP-98 (0.11), KIP-890")
    assert all(switch in error.notes[-1] for switch in switches)


# ------------------------------------------------------------------------------------------- racks, sides, and lists


@pytest.mark.parametrize(
    ("step", "caret", "suggestion"),
    [
        ("restart: A", "A", "rack(A)"),
        ("kill: [b1, B]", "B", "rack(B)"),
        ("kill: b", "b", "rack(B)"),
        ("kill: rack A", "rack A", "rack(A)"),
        ("kill: rack 'A'", "rack 'A'", "rack(A)"),
        ("kill: rack()", "rack()", "rack(A)"),
        ("kill: Rack=A", "Rack=A", "rack(A)"),
        ("kill: rack-B", "rack-B", "rack(B)"),
        ("kill: {rack: A}", "{rack: A}", "rack(A)"),
        ("kill: leader of t-0", "leader of t-0", "leader(t-0)"),
        ("stop: isr t-0", "isr t-0", "isr(t-0)"),
    ],
)
def test_a_rack_or_a_role_in_other_words_hears_its_selector(step: str, caret: str, suggestion: str) -> None:
    (error,) = errors_of(file_of(f"{{at: 1s, {step}}}"))
    assert (caret_text(error), error.suggestion) == (caret, suggestion)
    assert error.label == f"did you mean `{suggestion}`?"


def test_two_words_that_are_no_selectors_are_not_the_same_node() -> None:
    """What could not be read has no name that could stand twice."""
    errors = errors_of(file_of("{at: 1s, cut: {between: [rack A, rack B]}}"))
    assert [(error.code, error.suggestion) for error in errors] == [("E125", "rack(A)"), ("E125", "rack(B)")]
    errors = errors_of(file_of("{at: 1s, partition: [[b 1, b 2], [b 3]]}"))
    assert [error.code for error in errors] == ["E125", "E125", "E125"]


@pytest.mark.parametrize(
    ("step", "label"),
    [
        ("cut: [A, B]", "write {between: [rack(A), rack(B)]}"),
        ("cut: [b1, b2, b3]", "write {between: [b1, [b2, b3]]}"),
        ("cut: b1-b2", "write {between: [b1, b2]}"),
        ("cut: b1 from B", "write {between: [b1, rack(B)]}"),
        ("cut: b1", "write {between: [b1, [b2, b3, c1]]}"),
        ("reset_peer: [p1, b1]", "write {between: [p1, b1]}"),
        ("latency: [b1, b2]", "for example {between: [b1, b3], add: 200ms}"),
        ("loss: 10%", "for example {between: [b1, b3], rate: 10%}"),
        ("cut: {between: b1}", "write [b1, [b2, b3, c1]]"),
    ],
)
def test_a_link_without_its_keys_is_shown_with_them(step: str, label: str) -> None:
    (error,) = errors_of(file_of(f"{{at: 1s, {step}}}"))
    assert (error.code, error.label) == ("E111", label)


@pytest.mark.parametrize(
    ("block", "label"),
    [
        (
            "variants: {slow: {patch: {seed: 3}}}",
            "write a list, such as `- {id: slow, patch: {...}, expect: {verdict: ok}}`",
        ),
        (
            "variants: {id: slow, patch: {seed: 3}}",
            "write a list, such as `- {id: contrast, patch: {...}, expect: {verdict: ok}}`",
        ),
        ("tags: isr", "write [isr]"),
    ],
)
def test_a_block_that_is_no_list_is_shown_as_one(block: str, label: str) -> None:
    (error,) = errors_of(file_of(expect=f"expect: {{verdict: ok}}\n{block}\n"))
    assert (error.code, error.label) == ("E111", label)


def test_a_timeline_by_times_is_shown_as_a_list_of_steps() -> None:
    (error,) = errors_of(file_of().replace("timeline: []", "timeline: {10s: {kill: b1}}"))
    assert (error.code, error.label) == ("E111", "write a list, such as `- {at: 10.5s, kill: b1}`")


@pytest.mark.parametrize(
    ("steps", "label"),
    [
        (["wipe: b1"], "first stop, kill or power_off the broker"),
        (["tear: {broker: b1, partition: t-0, bytes: 10}"], "first stop, kill or power_off the broker"),
        (["start: b1"], "no earlier step stops the node"),
        (["wipe: b1", "kill: b1"], "steps are ordered by time, not by position"),
    ],
)
def test_a_step_too_early_hears_what_is_missing(steps: list[str], label: str) -> None:
    (error,) = errors_of(file_of(*(f"{{at: {number}s, {step}}}" for number, step in enumerate(steps, 1))))
    assert (error.code, error.label) == ("E130", label)


def test_help_that_several_errors_share_is_printed_once() -> None:
    errors = errors_of(file_of(*(f"{{at: 1s, kill: x{number}}}" for number in range(6))))
    screen = format_text("test.yaml", errors)
    assert screen.count("help: known names are b1, b2, b3, c1, p1, p2, c1r") == 1
    assert screen.count("more: highwater explain E131") == 1
    assert screen.count("path: timeline.") == 6


# ------------------------------------------------------------------------------------- strangers' units, names, places


@pytest.mark.parametrize(
    ("old", "new", "suggestion"),
    [
        ("duration: 60s", "duration: 1 hour", "60m"),
        ("duration: 60s", "duration: 90 seconds", "90s"),
        ("duration: 60s", "duration: 1min", "1m"),
        ("duration: 60s", "duration: 1m30", "90s"),
        ("duration: 60s", "duration: 1m30s", "90s"),
        ("duration: 60s", "duration: 2 min 30 sec", "150s"),
        ("duration: 60s", "duration: 1h0m0.5s", "3600.5s"),
        ("duration: 60s", "duration: PT1M30S", "90s"),
        ("duration: 60s", "duration: 00:01:30", "90s"),
        ("duration: 60s", "duration: 00:90", "90s"),
        ("duration: 60s", "duration: 1234567 seconds", "1234567s"),
        ("duration: 60s", "duration: 10 parsecs", None),
        ("duration: 60s", "duration: 1h30", None),
        ("duration: 60s", "duration: 1m30x", None),
        ("p2: {kind: producer", "p2: {rate: 100, kind: producer", "100/s"),
        ("p2: {kind: producer", "p2: {rate: 10/sec, kind: producer", "10/s"),
        ("p2: {kind: producer", "p2: {rate: 90 per minute, kind: producer", "90/m"),
        ("p2: {kind: producer", "p2: {size: 1k, kind: producer", "1kB"),
        ("p2: {kind: producer", "p2: {throughput: 10/s, kind: producer", "rate"),
        ("p2: {kind: producer", "p2: {record-size: 1kB, kind: producer", "size"),
        ("workloads:", "network: {bandwidth: 10MB}\nworkloads:", "10MB/s"),
        ("b3: {rack: B}", "b3: {zone: B}", "rack"),
        ("[b1, b2, b3]", "[1, b2, b3]", "b1"),
        ("expect: {verdict: ok}", "expect: {records: {lost: 5}}", "{count: 5}"),
        ("expect: {verdict: ok}", "expect: {records: {lost: 0}}", "none"),
    ],
)
def test_a_strangers_word_or_unit_hears_the_right_one(old: str, new: str, suggestion: str | None) -> None:
    text = file_of()
    assert text.count(old) == 1
    (error,) = errors_of(text.replace(old, new))
    assert error.suggestion == suggestion


def test_minutes_and_seconds_without_units_may_be_hours_and_minutes() -> None:
    (error,) = errors_of(file_of("{at: 01:10, kill: b1}"))
    assert (error.code, error.label) == ("E122", "did you mean `70s` or `70m`?")


@pytest.mark.parametrize(
    ("step", "suggestion"),
    [
        ("stop: broker1", "b1"),
        ("stop: Broker-2", "b2"),
        ("stop: 3", "b3"),
        ("kill: all", "brokers"),
        ("loss: {between: [b1, b2], rate: 0.1}", "10%"),
        ("pause: b1, for: 5 s", "5s"),
    ],
)
def test_a_strangers_step_hears_the_right_one(step: str, suggestion: str) -> None:
    (error,) = errors_of(file_of(f"{{at: 1s, {step}}}"))
    assert error.suggestion == suggestion


@pytest.mark.parametrize(
    ("old", "new", "label"),
    [
        ("duration: 60s", "duration: [60s]", "write 60s"),
        ("expect: {verdict: ok}", "expect: no loss", "for example {verdict: ok, records: {lost: none}}"),
        (
            "expect: {verdict: ok}",
            "expect: {state: {leader: b2}}",
            "name the partition: write {t-0: {leader: b2}}",
        ),
        ("timeline: []", "timeline: []\nstart: b1", "belongs to a step: indent it below a `-` of `timeline:`"),
        (
            "  t: {partitions",
            "  partitions: 1\n  t: {partitions",
            "indent `partitions` below the name that it belongs to",
        ),
        ("min.insync.replicas: 2", "cleanup.policy: [compact, delete]", 'write "compact, delete"'),
        ("  brokers:", "  controllers: c1\n  brokers:", "write [c1]"),
    ],
)
def test_a_value_in_the_wrong_place_or_shape_hears_the_right_one(old: str, new: str, label: str) -> None:
    text = file_of()
    assert text.count(old) == 1
    (error,) = errors_of(text.replace(old, new))
    assert error.label == label


@pytest.mark.parametrize("state", ["isr(t-0) < 2", "[t-0]"])
def test_a_condition_that_is_no_mapping_hears_an_example(state: str) -> None:
    (error,) = errors_of(file_of(f"{{when: {state}, kill: b1}}"))
    assert error.label == "for example {t-0: {leader: b2}} or {b1: {running: false}}"

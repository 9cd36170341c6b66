"""Error screens: golden files, positions, suggestions, formats."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from small_scenario import caret_text, errors_of, file_of

from scenarios.language import diagnostics
from scenarios.language.diagnostics import (
    EXPLANATIONS,
    KEPT_AT_MOST,
    ScenarioInvalid,
    did_you_mean,
    format_github,
    format_json,
    format_text,
    render,
)
from scenarios.language.parse.loading import load_text
from scenarios.language.values.synonyms import FIELD_SYNONYMS, NOT_PLAYED
from scenarios.language.verbs.command_words import ShorthandError
from scenarios.language.verbs.every import step_of

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
    ("title: Small", "title: Small\nlesson: 14", "E112", "14", None),
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
        ("create_partitions: {topic: t, count: 9}", "`create_partitions` is"),
        ("unregister_broker: b3", "`unregister_broker` is"),
        ("delete_records: t-0", None),
        ("delete_group: g", None),
        ("reset_offsets: {group: g, topic: t, to: earliest}", None),
        ("abort_transaction: t-0", None),
        ("fence_producer: orders", None),
    ],
)
def test_in_the_zookeeper_era_an_operator_may_change_topics_only(step: str, title: str | None) -> None:
    text = file_of(f"{{at: 5s, {step}}}").replace("title: Small", "title: Small\nprofile: kafka-2.0")
    expected = [] if title is None else [f"{title} not yet supported in the ZooKeeper era"]
    assert [error.title for error in errors_of(text)] == expected


@pytest.mark.parametrize(
    ("step", "profile", "since"),
    [
        ("delete_records: t-0", "0.10", "0.11"),
        ("delete_group: g", "0.11", "2.0"),
        ("delete_offsets: {group: g, topic: t}", "2.1", "2.7"),
        ("abort_transaction: t-0", "0.10", "0.11"),
        ("fence_producer: orders", "0.10", "0.11"),
    ],
)
def test_a_request_that_brokers_of_the_era_do_not_know_is_an_error(step: str, profile: str, since: str) -> None:
    text = file_of(f"{{at: 5s, {step}}}").replace("title: Small", f"title: Small\nprofile: kafka-{profile}")
    (error,) = errors_of(text)
    assert error.title == f"brokers of {profile} have no `{step.split(':')[0]}`" and since in str(error.label)
    assert not errors_of(text.replace(f"kafka-{profile}", f"kafka-{since}"))


@pytest.mark.parametrize("verb", ["move_replica", "remove_members", "alter_credentials"])
def test_what_kafka_can_and_no_step_does_is_not_yet_supported(verb: str) -> None:
    (error,) = errors_of(file_of(f"{{at: 5s, {verb}: b1}}"))
    assert (error.code, error.title) == ("E120", f"`{verb}` is not yet supported in step 1")
    assert error.place.line == 13 and error.label == NOT_PLAYED[verb]
    with pytest.raises(ShorthandError, match="is not yet supported"):
        step_of([verb, "b1"], ["b1"], None, None)


@pytest.mark.parametrize(
    ("step", "label"),
    [
        (
            "rolling_restart: [b1, b2], wait_for: isr",
            "belongs inside: `rolling_restart: {brokers: ..., wait_for: ...}`",
        ),
        ("rolling_restart: [b1, b2], pause: 5s", "belongs inside: `rolling_restart: {brokers: ..., pause: ...}`"),
        ("hold: {from: b1, to: b2}, api: Fetch", "belongs inside: `hold: {from: ..., api: ...}`"),
        ("kill: b1, stop: b2", "move `stop` to another step"),
        ("set_config: {topic: t, config: {}, min.insync.replicas: 1}", "belongs under `config:`"),
    ],
)
def test_a_key_beside_its_place_is_told_where_it_belongs(step: str, label: str) -> None:
    assert label in [error.label for error in errors_of(file_of(f"{{at: 5s, {step}}}"))]


def test_a_delay_that_cannot_be_read_is_not_said_to_change_nothing() -> None:
    with pytest.raises(ScenarioInvalid) as invalid:
        load_text(file_of("{at: 5s, latency: {between: [b1, b2], delay: 10ms}}"), "test.yaml")
    assert [one.code for one in invalid.value.diagnostics if (one.path or "").startswith("timeline")] == ["E104"]


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("add_partitions", "create_partitions"),
        ("add_controller", "add_voter"),
        ("purge", "delete_records"),
        ("abort", "abort_transaction"),
    ],
)
def test_an_operators_word_leads_to_the_verb(word: str, meant: str) -> None:
    (error,) = errors_of(file_of(f"{{at: 5s, {word}: t-0}}"))
    assert error.code == "E104" and error.suggestion == meant


def test_a_partition_can_be_named_behind_the_step_that_adds_it() -> None:
    steps = ["{at: 5s, create_partitions: {topic: t, count: 4}}", "{at: 9s, delete_records: t-3}"]
    assert not errors_of(file_of(*steps))
    assert [error.code for error in errors_of(file_of(*reversed(steps)))] == ["E132"]


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [("transaction.versions", "transaction.version"), ("group_version", "group.version"), ("nothing.of.it", None)],
)
def test_a_feature_that_kafka_does_not_have_is_an_error(name: str, suggestion: str | None) -> None:
    (error,) = errors_of(file_of(f"{{at: 5s, update_features: {{features: {{{name}: 1}}}}}}"))
    assert (error.code, caret_text(error), error.suggestion) == ("E131", name, suggestion)
    assert error.label.startswith("choose one of ") == (suggestion is None)


@pytest.mark.parametrize(("profile", "found"), [("kafka-3.9", ["E120"]), ("kafka-4.1", [])])
def test_groups_have_settings_since_4_0(profile: str, found: list[str]) -> None:
    step = "{at: 5s, set_config: {group: g, config: {consumer.session.timeout.ms: 50000}}}"
    text = file_of(step).replace("title: Small", f"title: Small\nprofile: {profile}")
    assert [error.code for error in errors_of(text)] == found


@pytest.mark.soak
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
    assert any("no controller is named, so it is called `c1`" in note for note in error.notes)


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
    package = Path(diagnostics.__file__).parent
    used = {code for path in package.glob("*.py") for code in re.findall(r'"([EW]\d{3})"', path.read_text())}
    assert used <= set(EXPLANATIONS)
    assert set(EXPLANATIONS) <= used | {"E103"}


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

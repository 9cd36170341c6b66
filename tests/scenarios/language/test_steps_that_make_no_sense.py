"""Each part is right by itself; together they cannot happen, or change nothing."""

from __future__ import annotations

import pytest
from small_scenario import HEAD, PLAIN_EXPECT, errors_of, file_of

from scenarios.language.diagnostics import (
    render,
)
from scenarios.language.parse.loading import load_text

VICTIM = '{at: 1s, kill: "leader(t-0)", as: v}'
NEEDLESS = [
    (("{at: 1s, kill: b1}", "{at: 2s, kill: b1}"), "W205", "step 2 would kill b1, which has been down since step 1"),
    (("{at: 1s, kill: b1}", "{at: 2s, start: b1}", "{at: 3s, kill: b1}"), None, ""),
    (("{at: 1s, stop: b1}", "{at: 1.1s, kill: b1}"), None, ""),
    (("{at: 1s, kill: b1}", "{at: 2s, power_off: b1}"), None, ""),
    (("{at: 1s, resume: b1}", "{at: 2s, pause: b1}"), "W205", "step 1 resumes b1, which no step has paused"),
    (("{at: 1s, pause: b1, for: 9s}", "{at: 2s, resume: b1}"), None, ""),
    (('{at: 1s, pause: "leader(t-0)"}', "{at: 2s, resume: b1}"), None, ""),
    (("{at: 1s, kill: b1}", "{at: 2s, restart: b1}", "{at: 3s, kill: b1}"), None, ""),
    (("{at: 1s, kill: b1}", "{at: 2s, kill: brokers}"), None, ""),
    (
        ("{at: 1s, kill: brokers}", '{at: 2s, kill: "others(b1)"}'),
        "W205",
        "step 2 would kill b2, b3, which have been down since step 1",
    ),
    ((VICTIM, '{at: 2s, kill: "@v"}'), "W205", "step 2 would kill @v, which has been down since step 1"),
    (
        ("{at: 1s, kill: b1, as: v}", '{at: 2s, kill: "@v"}'),
        "W205",
        "step 2 would kill b1, which has been down since step 1",
    ),
    ((VICTIM, '{at: 2s, start: "@v"}', '{at: 3s, kill: "@v"}'), None, ""),
    ((VICTIM, "{at: 2s, start: b1}", '{at: 3s, kill: "@v"}'), None, ""),
    ((VICTIM, "{at: 2s, kill: b1}", "{at: 3s, start: b1}", '{at: 4s, start: "@v"}'), None, ""),
    (
        (VICTIM, '{at: 4s, kill: "leader(t-0)"}'),
        "W205",
        "step 2 would kill the same broker again 3 s after step 1: it stays leader(t-0) until its session of 9 s ends",
    ),
    ((VICTIM, '{at: 2s, start: "@v"}', '{at: 9s, start: "@v"}'), None, ""),
    ((VICTIM, '{at: 11s, kill: "leader(t-0)"}'), None, ""),
    ((VICTIM, "{at: 2s, rolling_restart: b1}", '{at: 4s, kill: "leader(t-0)"}'), None, ""),
    (
        ("{at: 1s, kill: b2}", "{at: 2s, rolling_restart: [b1, b2]}"),
        "W205",
        "step 2 would restart nothing: b2 has been down since step 1",
    ),
    (("{at: 1s, rolling_restart: [b1, b2]}", "{at: 5s, start: b1}", "{at: 9s, kill: b1}"), None, ""),
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
            "step 2 uses `@v` before step 1 chooses its nodes",
        ),
        (
            ('{at: 1s, start: "@v"}', '{at: 1s, kill: "leader(t-0)", as: v}'),
            "E133",
            "step 1 uses `@v` before step 2 chooses its nodes",
        ),
        (
            ('{at: 1s, pause: "leader(t-0)", as: v}', '{at: 2s, start: "@v"}'),
            "E130",
            "step 2 would start @v, which is not down at that time",
        ),
        (
            ("{at: 1s, kill: b1, for: 2s}", "{at: 9s, start: b1}"),
            "E130",
            "step 2 would start b1, which is not down at that time",
        ),
        (
            ("{at: 1s, create_topic: t}", "{at: 9s, create_topic: t}"),
            "E130",
            "step 2 would create the topic `t`, which step 1 has created",
        ),
        (
            ("{at: 1s, create_topic: t, every: 5s, times: 2}",),
            "E130",
            "step 1 would create the topic `t`, which its first firing has created",
        ),
        (
            ("{at: 9s, delete_topic: t}", "{at: 1s, delete_topic: t}"),
            "E130",
            "step 1 would delete the topic `t`, which step 2 has deleted",
        ),
        (
            ("{at: 1s, delete_topic: t}", "{at: 2s, create_topic: t}", "{at: 3s, create_topic: t}"),
            "E130",
            "step 3 would create the topic `t`, which step 2 has created",
        ),
        (
            ("{at: 1s, delete_topic: t, every: 5s, times: 2}",),
            "E130",
            "step 1 would delete the topic `t`, which its first firing has deleted",
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
            ["step 2 sends to a topic that step 1 deleted and no step creates again"],
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


RESTARTS = [
    (("{at: 1s, restart: b1}", "{at: 9s, restart: b2}"), 2),
    (("{at: 9s, restart: b2}", "{at: 1s, restart: b1}"), 1),
    (("{at: 1s, restart: [b1, b2]}",), 1),
    (("{at: 1s, restart: brokers}",), 1),
    (("{at: 1s, restart: others(b1)}",), 1),
    (('{at: 1s, restart: "followers(t-0)"}',), 1),
    (('{at: 1s, restart: "leader(t-0)"}', '{at: 9s, restart: "follower(t-0,1)"}'), 2),
    (('{at: 1s, restart: "leader(t-0)", every: 9s, times: 3}',), 1),
    (("{at: 1s, restart: b1}",), None),
    (("{at: 1s, restart: b1}", "{at: 9s, restart: b1}"), None),
    (("{at: 1s, restart: b1, every: 9s, times: 3}",), None),
    (("{at: 1s, restart: p1}", "{at: 9s, restart: c1r}"), None),
    (("{at: 1s, restart: clients}",), None),
    (("{at: 1s, restart: [b1, p1]}",), None),
    (("{at: 1s, rolling_restart: brokers}",), None),
    (("{at: 1s, kill: [b1, b2]}", "{at: 2s, start: [b1, b2]}"), None),
]


@pytest.mark.parametrize(("steps", "number"), RESTARTS)
def test_brokers_that_are_killed_one_after_another_by_restart_are_a_mistake(
    steps: tuple[str, ...], number: int | None
) -> None:
    warnings = [one for one in load_text(file_of(*steps), "test.yaml").warnings if one.code == "W213"]
    assert [one.path for one in warnings] == ([f"timeline.{number}.restart"] if number else [])
    assert all("rolling_restart: [b1, b2, b3]" in render(one) for one in warnings)


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
    why = "`p1` and `p2` start together with the same transactional.id: one fences the other"
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
    assert found["step 2 would kill b1, which has been down since step 1"].variants == ("base", "short")
    late = found["step 1 comes after the end of the run"]
    assert late.variants == ("short",) and "= only in variant short" in render(late)


@pytest.mark.parametrize(
    ("expected", "title"),
    [
        ("records: {lost: r4..r5}", "r5 is expected, but its producer sends only 5 records"),
        ("records: {lost: {at_least: s0}}", "s0 is expected, but its producer sends only 0 records"),
        ('logs: {t-0: "r0, r9"}', "r9 is expected, but its producer sends only 5 records"),
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
        (
            "kafka-4.1",
            "min.insync.replicas (4) counts as 3, the replication factor: one slow broker stops acks=all writes",
        ),
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
    assert [note.split(":")[1] for note in error.notes] == [" a step has one verb", " and these keys beside the verb"]


@pytest.mark.parametrize(
    ("old", "new", "title"),
    [
        ("{b1: {rack: A}, b2: {rack: B}, b3: {rack: B}}", "[b1, b2, b3]", "`brokers` must be a mapping, not a list"),
        ("b3", "all", "`all` is a reserved word and cannot be a name"),
    ],
)
def test_who_uses_what_could_not_be_read_is_not_to_blame(old: str, new: str, title: str) -> None:
    text = file_of("{at: 1s, kill: b3}", "{at: 2s, elect: {partition: t-0}}", "{at: 3s, start: b3}")
    assert old in text
    assert [error.title for error in errors_of(text.replace(old, new))] == [title]


@pytest.mark.parametrize(
    ("brokers", "config", "titles"),
    [
        (2, "{transactional.id: T}", ["`p1` waits forever: __transaction_state cannot be created on 2 brokers with "
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
        ["step 1 changes nothing: no workload is called p9; the workloads are p1, p2, c1r"] if is_warned_of else []
    )

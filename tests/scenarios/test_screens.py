"""The screens of `run`, `compare` and `test`, as golden texts."""

from __future__ import annotations

import io
from typing import Any
from xml.etree import ElementTree

import pytest
from stories import acks_1_leader_dies, compare_with_golden, summary_of
from trace_script import TraceScript

from replica.trace.events import EVENT_NAMES, HighWatermarkAdvanced, IsrProposed, PartitionCreated, RecordRead
from replica.trace.signs import SIGNS, sign_of
from scenarios.check.expectations import Expectation
from scenarios.cli.screens import BRIEF_FINDINGS_MAX, LINES_MAX, LIVE_LINES_MAX, compare_table, junit_text, run_screen
from scenarios.cli.screens import test_line as line_of_test
from scenarios.observe.story import Story, StoryLine, grouped
from scenarios.observe.view import ClusterView
from scenarios.observe.wording import count_of, replay_command
from scenarios.terminal.style import Style
from scenarios.view.page import head


def story_of(script: TraceScript) -> Story:
    return Story.of(ClusterView(("b1", "b2", "b3"), ("c1",), ("p1", "r1")), script.rows)


EXPECTED = [Expectation("verdict", True, "lost"), Expectation("records.lost", True, "r1..r2 (2)")]
FAILED = [*EXPECTED, Expectation("records.acked", False, "expected r0..r9, found r0..r2 (3)")]


def nothing_lost() -> TraceScript:
    script = TraceScript()
    script.replicate("r0", "r1", "r2", acks=-1)
    for node in ("b1", "b2", "b3"):
        script.find(node, "r0", "r1", "r2")
    return script


def handed_over_and_gone() -> TraceScript:
    script = TraceScript()
    script.replicate("r0")
    script.send("r1", acks=0)
    script.hand_over("r1")
    script.find("b1", "r0")
    return script


def test_a_loss(request: pytest.FixtureRequest) -> None:
    script = acks_1_leader_dies()
    screen = run_screen(summary_of(script, EXPECTED), story_of(script), Style(), "highwater run by-hand --seed 1")
    compare_with_golden("screen_run_lost.txt", screen, request)


def test_a_loss_in_plain_ascii_on_80_columns_with_a_failed_expectation(request: pytest.FixtureRequest) -> None:
    script = acks_1_leader_dies()
    screen = run_screen(
        summary_of(script, FAILED), story_of(script), Style(plain=True, width=80), "highwater run by-hand --seed 1"
    )
    assert screen.isascii() and max(len(line) for line in screen.splitlines()) <= 80
    compare_with_golden("screen_run_plain.txt", screen, request)


def test_the_verdict_of_a_long_live_session_comes_last_and_fits_a_screen(request: pytest.FixtureRequest) -> None:
    """Three hundred groups, forty clients, two hundred partitions, and a loss among them."""
    script = acks_1_leader_dies()
    summary = summary_of(script)
    group = {
        f"orders-{number}": {
            "observed_us": 3_600_000_000,
            "unread_us": 1000 * number,
            "longest_us": 100 * number,
            "moved": 2,
        }
        for number in range(4)
    }
    sender = summary["producers"]["p1"]
    summary |= {
        "live": True,
        "without_reader": {f"group-{number}": group for number in range(300)},
        "logs": summary["logs"] | {f"orders-{number}": [] for number in range(200)},
        "producers": {f"client/rdkafka-{number}": sender for number in range(40)},
        "unavailable": {f"orders-{number}": [[0, 1_000_000 * number]] for number in range(200)},
        "never_read": {f"client/reader-{number}": "it is not allowed to read" for number in range(30)},
    }
    screen = run_screen(summary, story_of(script), Style(width=100))
    lines = screen.rstrip().splitlines()
    assert len(lines) <= LIVE_LINES_MAX and max(map(len, lines)) <= 100
    (loss,) = [place for place, line in enumerate(lines) if "2 ACKED RECORDS LOST" in line]
    assert loss >= len(lines) - BRIEF_FINDINGS_MAX - 1
    compare_with_golden("screen_run_long_session.txt", screen, request)


def test_many_records_and_errors_fit_80_columns() -> None:
    script = TraceScript()
    script.replicate(*(f"r{number}" for number in range(120)))
    summary = summary_of(script, EXPECTED)
    errors = {"NOT_LEADER_OR_FOLLOWER": 5, "NETWORK_EXCEPTION": 6, "NOT_ENOUGH_REPLICAS": 4}
    summary["producers"]["p1"]["errors"] = errors
    lines = run_screen(summary, story_of(script), Style(width=80)).splitlines()
    assert max(map(len, lines)) == 80
    assert any(line.endswith("  120") for line in lines)
    for error, count in errors.items():
        assert any(f"{error} x{count}" in line for line in lines)


def test_of_many_events_the_rest_is_where_it_can_be_had() -> None:
    """Nothing gives a live run once more, with another option."""
    script = nothing_lost()
    story = story_of(script)
    story.lines += [StoryLine(number, "note", "of no partition") for number in range(LINES_MAX + 5)]
    more = len(grouped(story)) - LINES_MAX
    for again, which in ((None, "`highwater view` shows all"), ("highwater run x", "-v shows all")):
        screen = run_screen(summary_of(script, []), story, Style(), again)
        assert more > 0 and f"and {count_of(more, 'more event')}; {which}\n" in screen


def test_a_number_behind_the_name_of_a_client_is_explained() -> None:
    script = nothing_lost()
    summary = summary_of(script, [])
    told_to_p1 = summary["producers"].pop("p1")
    summary["producers"] |= {"client/shop app": told_to_p1, "client/shop app#2": told_to_p1}
    screen = run_screen(summary, story_of(script), Style(), "")
    told = "client/shop app#2 is another producer with client.id client/shop app"
    assert [line.strip() for line in screen.splitlines() if "another producer" in line] == [told]


@pytest.mark.parametrize("producer", ["p1", "client/rdkafka", "client/" + "x" * 60])
def test_what_follows_a_label_stands_in_one_column_as_far_as_its_name_allows(producer: str) -> None:
    script = nothing_lost()
    summary = summary_of(script, [])
    summary["producers"] = {producer: summary["producers"]["p1"]}
    summary["unavailable"] = {"eu.orders.v1-0": [(0, 9_000_000)], **{f"t-{n}": [(0, 1_000_000)] for n in range(3)}}
    lines = run_screen(summary, story_of(script), Style(), "").splitlines()
    texts = ("3 readable", "9 s at", "1 s at", "1 more")
    starts = {line.index(text) for line in lines for text in texts if text in line}
    (of_producer,) = [line.index(" 3 sent") + 1 for line in lines if " 3 sent" in line]
    assert len(starts) == 1
    assert of_producer in starts or of_producer == len(f"  Records of {producer} ")
    assert [line.strip() for line in lines if "more partition" in line] == ["1 more partition, for a shorter time"]


def test_nothing_lost_is_said_in_green_and_only_with_colour() -> None:
    script = nothing_lost()
    summary = summary_of(script, EXPECTED[:0], variant="acks-all", acks="all")
    coloured = run_screen(summary, story_of(script), Style(colour=True))
    assert "\x1b[32m  ✓ NOTHING LOST of 3 acked records\x1b[0m" in coloured
    assert "\x1b" not in run_screen(summary, story_of(script), Style())


def test_each_broker_has_the_colour_of_the_page_and_of_the_report() -> None:
    script = nothing_lost()
    screen = run_screen(summary_of(script, []), story_of(script), Style(colour=True))
    # The nearest of a terminal's 256 colours to those of broker_marks.
    assert [f"\x1b[38;5;{colour}mISR {node} " in screen for node, colour in (("b1", 60), ("b2", 130), ("b3", 29))] == [
        True
    ] * 3


def test_compare(request: pytest.FixtureRequest) -> None:
    summaries = [
        summary_of(acks_1_leader_dies(), EXPECTED),
        summary_of(nothing_lost(), [], variant="acks-all", acks="all"),
        summary_of(handed_over_and_gone(), [], variant="acks-0", acks="0"),
    ]
    compare_with_golden("screen_compare.txt", compare_table(summaries, Style()), request)


@pytest.mark.parametrize(
    ("acked", "words", "counts"),
    [(["r0", "r1", "r2"], "2 acked records lost", ["✕ 2"]), (["r0", "r1"], "2 records lost", ["✕ 1", "1"])],
)
def test_a_lost_record_is_called_acked_only_if_it_was(acked: list[str], words: str, counts: list[str]) -> None:
    """`run`, `compare` and the page say the same. The others are outputs that a transform owes for inputs it is done
    with."""
    script = acks_1_leader_dies()
    summary = {**summary_of(script), "title": "By hand"}
    summary["records"] |= {"acked": acked, "unknown": [name for name in ("r1", "r2") if name not in acked]}
    assert f"  ✕ {words.upper()}: r1..r2\n" in run_screen(summary, story_of(script), Style())
    table = compare_table([summary], Style()).splitlines()
    rows = [line.split(",")[1] for line in table if line.startswith(("  acked, then lost", "  lost, never acked"))]
    assert [row.removeprefix(" then lost").removeprefix(" never acked").strip() for row in rows] == counts
    of_page = head(summary)
    assert (of_page["lost_in_words"], of_page["acked_and_lost"]) == (words, int(counts[0].removeprefix("✕ ")))


def test_what_is_readable_may_be_uncommitted_where_there_are_transactions() -> None:
    script = nothing_lost()
    summary = summary_of(script)
    for words in ("readable", "readable or uncommitted"):
        screen = run_screen(summary, story_of(script), Style())
        assert f"  The log says            3 {words}    0 lost" in screen
        assert any(line.split() == [*words.split(), "at", "the", "end", "3"] for line in table_lines(summary))
        summary["setting"]["transactional.id"] = {"p1": "orders"}


def table_lines(summary: dict[str, Any]) -> list[str]:
    return compare_table([summary], Style()).splitlines()


def test_records_that_cannot_be_read_or_have_no_ack_are_compared_too() -> None:
    unseen, unanswered = TraceScript(), TraceScript()
    unseen.replicate("r0", "r1")
    unseen.find("b1", "r0", "r1", hw=1)
    unanswered.replicate("r0")
    unanswered.send("r1", acks=0)
    unanswered.hand_over("r1")
    unanswered.find("b1", "r0", "r1")
    table = compare_table([summary_of(unseen), summary_of(unanswered, variant="acks-0", acks="0")], Style())
    assert table.splitlines()[-4:] == [
        "  as written  ✓?   r1 cannot be read",
        "  acks-0      ✓→   nothing lost",
        "              → not acked: failed, no response, or acks=0",
        "              ? acked and in the log, but not readable",
    ]
    (row,) = [line.split() for line in table.splitlines() if line.startswith("  acked, cannot be read")]
    assert row[-2:] == ["1", "0"]


def test_what_only_some_variants_have_is_compared_too() -> None:
    one = {"observed_us": 9_000_000, "unread_us": 3_000_000, "longest_us": 2_000_000, "moved": 1}
    with_group = {**summary_of(nothing_lost(), [], variant="group"), "without_reader": {"g": {"t-0": one}}}
    without = summary_of(nothing_lost(), [], variant="alone")
    for summaries in ([with_group, without], [without, with_group]):
        lines = compare_table(summaries, Style()).splitlines()
        (mean,) = [line.split()[3:] for line in lines if line.startswith("  mean time unread")]
        assert sorted(mean) == ["3", "s", "–"]


def test_lines_of_a_test_name_what_does_not_hold() -> None:
    script = acks_1_leader_dies()
    again = "highwater run by-hand"
    good = line_of_test(summary_of(script, EXPECTED), Style(), again)
    assert good.startswith("  ✓ by-hand ") and "lost r1..r2" in good and "\n" not in good
    bad = line_of_test(summary_of(script, FAILED, variant="x"), Style(plain=True), f"{again} --variant x")
    assert bad.startswith("  FAIL by-hand / x")
    assert [line.strip() for line in bad.splitlines()[1:]] == [
        "records.acked: expected r0..r9, found r0..r2 (3)",
        "See it:  highwater run by-hand --variant x",
    ]


def test_a_broken_invariant_is_never_good() -> None:
    script = nothing_lost()
    script.append("b1", 9, "r9")
    summary = summary_of(script, [])
    assert summary["verdict"] == ["invariant"] and line_of_test(summary, Style(), "").startswith("  ✕")


def test_junit_has_each_run_as_a_case_with_what_does_not_hold() -> None:
    script = acks_1_leader_dies()
    good, bad = summary_of(script, EXPECTED), summary_of(script, FAILED, variant="x")
    invariant = {**good, "our_bug": True, "variant": "odd\x1b\ud800"}
    root = ElementTree.fromstring(junit_text([(good, "one"), (bad, "two"), (invariant, "three")]).encode())
    (suite,) = root
    for element in (root, suite):
        assert {name: element.get(name) for name in ("tests", "failures", "errors")} == {
            "tests": "3",
            "failures": "1",
            "errors": "1",
        }
    assert [case.get("name") for case in suite] == ["base", "x", "odd??"]
    (failure,) = suite.iter("failure")
    assert failure.get("message") == "records.acked: expected r0..r9, found r0..r2 (3)"
    assert failure.text.endswith("See it:  two")
    assert len(list(ElementTree.fromstring(junit_text([(good, "one")], ["lost"]).encode()).iter("failure"))) == 1
    assert len(list(ElementTree.fromstring(junit_text([(good, "one")], ["reordered"])).iter("failure"))) == 0


def test_an_isr_is_explained_by_the_leader_only_if_the_leader_asked_for_it() -> None:
    """Proposed and not answered; then the controller writes the same ISR by itself."""
    script = TraceScript()
    script.propose(("b1", "b2"))
    script.commit_isr("b1", "b2")
    script.propose(("b1", "b2", "b3"))
    script.commit_isr("b1", "b2", "b3", by="b1")
    told = [line.text for line in story_of(script).lines if line.sign == "isr"]
    assert told == ["b3 left the ISR of t-0 (now {b1, b2})", "b1 proposed to expand the ISR of t-0 to {b1, b2, b3}"]


def test_every_event_that_is_told_has_a_sign() -> None:
    untold = {PartitionCreated, HighWatermarkAdvanced, IsrProposed, RecordRead}
    story = Story(ClusterView((), ()))
    told = [name for kind, name in EVENT_NAMES.items() if story.handlers_of(kind) and kind not in untold]
    assert told and all(sign_of(event) in SIGNS for event in told)


def test_replay_command() -> None:
    assert replay_command("s", None, 3) == "highwater run s --seed 3"
    wordy = replay_command("my file.yaml", "v", 3, ["topics.t.config.x=1"])
    assert wordy == "highwater run 'my file.yaml' --variant v --seed 3 --set topics.t.config.x=1"


class _Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "environment", "colour", "plain"),
    [
        (_Terminal(), {"TERM": "xterm"}, True, False),
        (_Terminal(), {"TERM": "xterm", "NO_COLOR": "1"}, False, False),
        (_Terminal(), {"TERM": "dumb"}, False, True),
        (io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), {"TERM": "xterm"}, False, False),
        (io.TextIOWrapper(io.BytesIO(), encoding="latin-1"), {}, False, True),
    ],
)
def test_style_respects_the_terminal(
    stream: io.TextIOBase, environment: dict[str, str], colour: bool, plain: bool
) -> None:
    style = Style.of(stream, environment)  # type: ignore[arg-type]
    assert (style.colour, style.plain) == (colour, plain)

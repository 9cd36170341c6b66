"""Every page in a real browser: it draws each mark of each chart, complains of nothing and asks the network nothing."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scenarios.search.findings import cause_of
from spark_reports import follow
from spark_reports.follow import InternalNow, PartitionNow, ReplicaNow
from spark_reports.report import ReportResult
from spark_reports.report import page as report_page
from spark_reports.report.rows import Rows
from spark_reports.results import RESULT_TABLES
from spark_reports.search import page as search_page
from spark_reports.search.page import run_ticks
from spark_reports.sweep import page as sweep_page
from spark_reports.sweep.page import FIGURES, MIDDLE_LUMINANCE, luminance
from spark_reports.sweep.tables import DOCS, SHARES
from tests.browser import Marks, marks_of, needs_chromium, opened
from tests.driven import axe_core, chromium, driven
from tests.spark.conftest import Ask

pytestmark = [pytest.mark.spark, needs_chromium]

ALL_OF_IT = 6000
"""Pixels: so high a window that all charts are near, as page.js draws only those."""


# ------------------------------------------------------------------------------------------------------- the report


def test_the_report_draws_every_fact_in_its_panel(report: ReportResult, ask: Ask, tmp_path: Path) -> None:
    page = opened(report.path, tmp_path, height=ALL_OF_IT, fragment="#&s=0-30")
    assert (page.console, page.asked) == ([], [])
    (panels,) = marks_of(page.document)
    standings, faults = ask("isr_intervals", "standing"), ask("fault_intervals", "verb")
    crowned, down = standings.count(("leader",)), len(ask("stopped_intervals", "node"))
    terms = set(ask("replication_lag", "follower", "leader_epoch"))
    told = Counter(node for node, event in ask("replica_timeline", "node", "event") if event in GLYPHS)
    told.update(node for (node,) in ask("lost_records", "acked_by"))
    assert len(faults) == 3 and crowned == 2 and down == 1 and told["b1"] == 5, "the story is another one"
    # One fault of this story is undone before its end: every panel has its shade, and a mark where each began.
    assert len(ask("fault_intervals", "verb", where=lambda row: row["from_us"] < row["until_us"] < 30_000_000)) == 1
    behind = Counter(rect=1, rule=len(faults) + len(ask("elections", "seq")))
    assert {title.partition(" · ")[0]: marks for title, marks in panels.items()} == {
        "Faults": behind + Counter(rect=len(faults), symbol=len(faults), text=len(faults)),
        "In-sync replicas": behind + Counter(rect=len(standings) + down, text=crowned + down),
        **{node: behind + Counter(area=1, line=2, text=told[node]) for node in ("b1", "b2", "b3")},
        "Uncommitted records: log end offset minus high watermark": behind + Counter(line=3),
        "At risk: acknowledged records above the leader's high watermark, lost if the leader died": behind
        + Counter(line=len(set(ask("data_at_risk", "leader", "leader_epoch", "acks")))),
        "Replication lag: records that the follower lacks": behind + Counter(line=len(terms)),
        "Replication lag: age of the oldest record that the follower lacks, in seconds": behind
        + Counter(line=len(terms)),
    }


def after(page: Path, scratch: Path, script: str) -> Path:
    """The same page with a script of the test's own, which runs when its charts are drawn."""
    copy = scratch / "after.html"
    html = page.read_text(encoding="utf-8")
    copy.write_text(f"{html}<script>setTimeout(() => {{{script}}}, 5000)</script>", encoding="utf-8")
    return copy


def shown_part(document: str) -> str:
    found = re.search(r"<output>([^<]*)</output>", document)
    assert found is not None
    return found[1]


KEY = "new KeyboardEvent('keydown', {key: '%s', bubbles: true})"


@pytest.mark.soak
def test_the_page_opens_with_the_decisive_moment_and_shows_another_on_a_click_by_keyboard_and_by_address(
    report: ReportResult, ask: Ask, tmp_path: Path
) -> None:
    page = opened(report.path, tmp_path, height=ALL_OF_IT)
    # The loss: from the fault at 5 s to the election at 14 s, and an eighth of that around it.
    assert shown_part(page.document) == "3.920 to 15.080 s of 30.000 s"
    strip = re.search(r'<svg class="strip".*?</svg>', page.document, re.DOTALL)
    assert strip is not None
    drawn = Counter(re.findall(r'<(?:rect|line) class="([\w-]+)"', strip[0]))
    standings = Counter(standing.replace(" ", "-") for (standing,) in ask("isr_intervals", "standing"))
    faults = Counter("lasting" if until == 30_000_000 else "fault" for (until,) in ask("fault_intervals", "until_us"))
    others = Counter(down=1, began=3, election=1, loss=len(set(ask("lost_records", "acked_us"))))
    assert drawn == standings + faults + others

    def shows(script: str = "", fragment: str = "") -> tuple[str, list[str]]:
        found = opened(after(report.path, tmp_path, script), tmp_path, height=ALL_OF_IT, fragment=fragment)
        assert found.console == []
        return shown_part(found.document), re.findall(r"<b>(b\d)</b> ([^<]*)</span>", found.document)

    behind = "LEO 3, HW 3, in sync, 2 records behind (100 ms)"
    state = [("b1", "LEO 5, HW 3, leader"), ("b2", behind), ("b3", behind)]
    assert shows(fragment="#run-1-charts&s=5-6&at=5.300") == ("5.000 to 6.000 s of 30.000 s", state)
    assert shows("[...document.querySelectorAll('.story a')].find((a) => a.textContent === '5.500 s').click()")[0] == (
        "4.250 to 6.750 s of 30.000 s"
    )
    first = "document.querySelector('.chart')"
    keys = "".join(f"{first}.dispatchEvent({KEY % key});" for key in ("0", "+", "+"))
    assert shows(keys)[0] == "11.250 to 18.750 s of 30.000 s"
    keys = "".join(f"{first}.dispatchEvent({KEY % key});" for key in ("ArrowRight", "ArrowRight", "ArrowLeft"))
    part, words = shows(keys, "#&s=5.15-6")
    assert part == "5.150 to 6.000 s of 30.000 s" and words[0] == ("b1", "LEO 5, HW 3, leader")


@pytest.mark.soak
def test_what_is_drawn_hangs_on_the_part_that_is_shown_and_not_on_those_before(
    report: ReportResult, tmp_path: Path
) -> None:
    def words(keys: str, fragment: str) -> list[tuple[str, str]]:
        """Each word on the charts, and where it stands."""
        script = "".join(f"document.querySelector('.chart').dispatchEvent({KEY % key});" for key in keys)
        page = opened(after(report.path, tmp_path, script), tmp_path, height=ALL_OF_IT, fragment=fragment)
        groups = re.findall(r'<g class="mark-text role-mark.*?</g>', page.document, re.DOTALL)
        found = [word for group in groups for word in re.findall(r'transform="([^"]*)"[^>]*>([^<]*)</text>', group)]
        return sorted((word, place) for place, word in found)

    whole = words("", "#&s=0-30")
    assert [word for word, _ in whole].count("♛ leader") == 2
    assert words("+", "#&s=20-30") != whole
    assert words("0", "#&s=20-30") == whole


GLYPHS = ("log_truncated", "node_stopped", "log_recovered")


@pytest.mark.soak
def test_a_page_that_asks_for_anything_is_refused_by_its_own_policy(report: ReportResult, tmp_path: Path) -> None:
    page, ask = (
        tmp_path / "greedy.html",
        '<img src="https://example.org/x.png"><script>fetch("http://example.org/y")</script>',
    )
    html = report.path.read_text(encoding="utf-8") + ask
    page.write_text(html, encoding="utf-8")
    refused = opened(page, tmp_path)
    complaints = "\n".join(refused.console)
    assert "x.png" in complaints and "example.org/y" in complaints and "Content Security Policy" in complaints
    assert refused.asked == []
    # Without the policy both would leave, and these tests would see it.
    page.write_text(html.replace("Content-Security-Policy", "No-Policy"), encoding="utf-8")
    assert sorted(opened(page, tmp_path).asked) == [
        "CONNECT example.org:443 HTTP/1.1",
        "GET http://example.org/y HTTP/1.1",
    ]


@pytest.mark.soak
@pytest.mark.parametrize("width", [420, 1280])
def test_charts_have_the_width_of_the_window_and_the_whole_of_their_titles(
    report: ReportResult, tmp_path: Path, width: int
) -> None:
    lines = ".chart .role-title-text :is(tspan, text:not(:has(tspan)))"
    titles = f"[...document.querySelectorAll('{lines}')].map((one) => one.textContent).join(' ')"
    wide = "document.querySelector('.chart svg.marks').getBoundingClientRect().width"
    with chromium() as browser, driven(browser, report.path.as_uri(), width, ready=".canvas svg.marks") as shown:
        room, scrolled = shown.page.evaluate(
            "(({clientWidth, scrollWidth}) => [clientWidth, scrollWidth])(document.querySelector('.chart'))"
        )
        assert scrolled <= room < width and shown.page.evaluate(wide) > 0.95 * room
        assert shown.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert "lost if the leader died" in re.sub(r"\s+", " ", shown.page.evaluate(titles))


@pytest.mark.soak
@pytest.mark.parametrize("width", [700, 1280])
def test_the_contents_lead_to_headings_that_the_clock_does_not_cover(report: ReportResult, width: int) -> None:
    tops = "[document.getElementById(decodeURIComponent(location.hash.slice(1))), document.querySelector('.clock')]"
    tops += ".map((one) => one.getBoundingClientRect()).map(({top, bottom}) => [top, bottom])"
    with chromium() as browser, driven(browser, report.path.as_uri(), width, 500, ready=".canvas svg.marks") as shown:
        links = shown.page.locator("nav.contents a")
        for place in range(links.count()):
            links.nth(place).click()
            shown.settle()
            (heading, _), (_, clock) = shown.page.evaluate(tops)
            assert clock <= heading, links.nth(place).inner_text()


@pytest.mark.soak
def test_the_part_of_the_clock_that_has_the_focus_shows_it(report: ReportResult) -> None:
    with chromium() as browser, driven(browser, report.path.as_uri(), 1280, ready=".canvas svg.marks") as shown:
        part = shown.page.locator(".clock-part")
        for key in ("d", "0"):  # the decisive moment, and all of the run
            part.focus()
            shown.press(key)
            focused = shown.page.screenshot()
            part.blur()
            assert shown.page.screenshot() != focused, key


@pytest.mark.soak
@pytest.mark.parametrize("width", [420, 700, 900])
def test_the_state_at_the_pointer_is_within_the_window(report: ReportResult, width: int) -> None:
    edges = "(({left, right}) => [left, right])(document.querySelector('#vg-tooltip-element.visible')"
    edges += ".getBoundingClientRect())"
    with chromium() as browser, driven(browser, report.path.as_uri(), width, ready=".canvas svg.marks") as shown:
        drawn = shown.page.locator(".concat_2_group .background").first
        drawn.scroll_into_view_if_needed()
        panel = drawn.bounding_box()
        assert panel is not None
        for share in (0.05, 0.5, 0.95):
            for pixel in (0, 2):  # Vega answers a pointer that moves.
                shown.page.mouse.move(panel["x"] + share * panel["width"] + pixel, panel["y"] + 20)
                shown.settle()
            shown.page.wait_for_selector("#vg-tooltip-element.visible")
            left, right = shown.page.evaluate(edges)
            assert 0 <= left < right <= width, share


@pytest.mark.soak
def test_words_of_a_fault_end_within_their_panel(report: ReportResult, tmp_path: Path) -> None:
    path = tmp_path / "named.html"
    path.write_text(re.sub(r"(?<!-)\bb1\b", "broker_of_the_cluster_of_these_tests", report.path.read_text()))
    panel = "[...document.querySelectorAll('.concat_0_group')].at(-1)"
    words = f"[...{panel}.querySelectorAll('.mark-text.role-mark text')].filter((one) => one.textContent)"
    ends = "{ const {left, right} = one.getBoundingClientRect(); return [left, right]; }"
    with chromium() as browser, driven(browser, path.as_uri(), 420, 3000, ready=".canvas svg.marks") as shown:
        said = shown.page.evaluate(f"{words}.map((one) => one.textContent)")
        assert any(word.endswith("…") for word in said), said
        ((left, right),) = shown.page.evaluate(f"[{panel}.querySelector('.background')].map((one) => {ends})")
        assert all(left <= start < end <= right for start, end in shown.page.evaluate(f"{words}.map((one) => {ends})"))


@pytest.mark.soak
def test_a_broker_may_have_a_name_that_every_object_of_javascript_knows(report: ReportResult, tmp_path: Path) -> None:
    path = tmp_path / "named.html"
    path.write_text(re.sub(r"(?<!-)\bb1\b", "constructor", report.path.read_text()))
    with chromium() as browser, driven(browser, path.as_uri(), 1280, 3000, ready=".canvas svg.marks") as shown:
        assert "constructor · line" in shown.page.inner_text(".canvas")
        assert shown.page.evaluate("document.querySelectorAll('.canvas.broken').length") == 0


def copies(report: ReportResult, names: Sequence[str]) -> str:
    """The page of runs that are alike but for their names."""

    def named(table: str) -> Rows:
        rows = pq.read_table(report.path.parent / "tables" / table)
        if not rows.num_rows:
            return Rows(rows)
        columns = [pa.array([name] * rows.num_rows, rows.schema.field("run").type) for name in names]
        place = rows.schema.get_field_index("run")
        return Rows(pa.concat_tables(rows.set_column(place, rows.schema.field("run"), column) for column in columns))

    return report_page.render({table: named(table) for table in RESULT_TABLES}, "these tests")


@pytest.mark.soak
@pytest.mark.parametrize(("runs", "widths"), [(2, {1300: 2, 800: 1}), (3, {1280: 3, 1000: 1}), (4, {1600: 4, 1280: 2})])
def test_runs_to_compare_have_their_charts_beside_each_other_where_there_is_room(
    report: ReportResult, tmp_path: Path, runs: int, widths: dict[int, int]
) -> None:
    path = tmp_path / "runs.html"
    path.write_text(copies(report, ["one", "other", "third", "fourth"][:runs]))
    lefts = "[...document.querySelectorAll('.side .chart')].map((one) => Math.round(one.getBoundingClientRect().left))"
    tops = lefts.replace("left", "top")
    room = "[...document.querySelectorAll('.side .chart')].every((one) => one.scrollWidth <= one.clientWidth)"
    with chromium() as browser:
        for width, beside in widths.items():
            with driven(browser, path.as_uri(), width, 3000, ready=".side .canvas svg.marks") as shown:
                found = Counter(shown.page.evaluate(tops))
                assert set(found.values()) == {beside} and len(found) == runs // beside
                assert len(set(shown.page.evaluate(lefts))) == beside and shown.page.evaluate(room)
                assert shown.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


# -------------------------------------------------------------------------------------------------------- the sweep


def swept(*axes: tuple[str, tuple[str, ...]]) -> str:
    """The page of a sweep over these axes, whose settings differ in all that is drawn. acks=0 has no latency."""
    rows = []
    for place, values in enumerate(itertools.product(*(values for _, values in axes))):
        shares = {
            f"{name}_{end}": value
            for name in SHARES
            for end, value in (("probability", 0.1 * place), ("low", 0.05 * place), ("high", min(1.0, 0.2 * place)))
        }
        settings = [f"{label}={value}" for (label, _), value in zip(axes, values, strict=True)]
        times = {name: 2_000_000 * place for name in ("unavailable_mean_us", "unavailable_max_us")}
        acks = {} if "acks=0" in settings else {"ack_p50_us": 1000, "ack_p99_us": 900_000 * place, "ack_max_us": 10**7}
        counts = {name: 10 for name in DOCS if name.endswith(("runs", "records"))} | {"finished": 10}
        replays = {"losing_replay": None, "unfinished_replay": None, "setting": place, "settings": settings}
        rows.append(dict.fromkeys(DOCS) | counts | shares | times | acks | replays)
    about = {"scenario": "luck", "title": "Luck", "question": "Why?", "seeds": "seeds 1..10", "overrides": ()}
    return sweep_page.render(about, rows, axes, "these tests")


ACKS, MIN_ISR = ("acks", ("0", "1", "all")), ("min.insync.replicas", ("1", "2"))


def over_one_axis(figure: str) -> list[Marks]:
    known = 2 if figure == "latency" else 3
    marks = Counter(symbol=known, text=known)
    return [marks if figure in ("latency", "unavailable") else marks + Counter(rule=3)]


def over_two_axes(figure: str) -> list[Marks]:
    # A cell without a value has a dash, and nothing more to say.
    return [Counter(rect=6, text=2 * 6 - (2 if figure == "latency" else 0))]


@pytest.mark.soak
@pytest.mark.parametrize(
    ("axes", "expected"),
    [
        pytest.param((ACKS,), over_one_axis, id="one", marks=pytest.mark.soak),
        pytest.param((ACKS, MIN_ISR), over_two_axes, id="two"),
        pytest.param(
            (ACKS, MIN_ISR, ("partitions", ("1", "2", "3"))),
            lambda figure: over_two_axes(figure) * 3,
            id="three",
            marks=pytest.mark.soak,
        ),
    ],
)
def test_a_sweep_draws_every_setting_in_every_chart(axes: Any, expected: Any, tmp_path: Path) -> None:
    path = tmp_path / "sweep.html"
    path.write_text(swept(*axes), encoding="utf-8")
    page = opened(path, tmp_path, height=ALL_OF_IT)
    assert (page.console, page.asked) == ([], [])
    drawn = [chart[""] for chart in marks_of(page.document)]
    assert drawn == [marks for figure in FIGURES for marks in expected(figure.name)]


@pytest.mark.soak
def test_a_map_that_is_too_wide_fades_where_there_is_more(tmp_path: Path) -> None:
    path = tmp_path / "sweep.html"
    edges = "['more-left', 'more-right'].map((name) => document.querySelector('.chart').classList.contains(name))"
    with chromium() as browser:
        for columns, fades in ((3, [False, False]), (9, [False, True])):
            path.write_text(swept(("partitions", tuple("123456789"[:columns])), MIN_ISR), encoding="utf-8")
            with driven(browser, path.as_uri(), 420, ready=".canvas svg.marks") as shown:
                assert shown.page.evaluate(edges) == fades
                shown.page.evaluate("document.querySelector('.chart').scrollLeft = 1e6")
                shown.settle()
                assert shown.page.evaluate(edges) == fades[::-1]


def test_every_shade_has_an_ink_that_can_be_read() -> None:
    inks = {0.0: True, 0.5: True, 0.8: True, 1.0: False}
    assert {share: luminance(share) > MIDDLE_LUMINANCE for share in inks} == inks
    # The better of black and white, where they are closest.
    assert (MIDDLE_LUMINANCE + 0.05) / 0.05 > 4.5


@pytest.mark.soak
@pytest.mark.parametrize(
    ("broken", "notice"),
    [
        pytest.param('"datasets":{', '"datasets":{,', id="json"),
        pytest.param('"datasets":{', '"datasets":{"one-more":{"s":null},', id="columns", marks=pytest.mark.soak),
        pytest.param(  # Vega meets it at work
            '"mark":',
            '"transform":[{"calculate":"datum.no.such.field","as":"value"}],"mark":',
            id="expression",
            marks=pytest.mark.soak,
        ),
    ],
)
def test_an_error_in_a_charts_data_is_said_in_its_place(broken: str, notice: str, tmp_path: Path) -> None:
    whole = swept(ACKS)
    assert whole.count(broken) >= len(FIGURES)
    path = tmp_path / "broken.html"
    path.write_text(whole.replace(broken, notice, 1), encoding="utf-8")
    page = opened(path, tmp_path, height=ALL_OF_IT)
    said = re.findall(r'<div class="(canvas[^"]*)"[^>]*>(This chart could not be drawn: \w*Error)?', page.document)
    assert [bool(notice) for _, notice in said] == [True] + [False] * (len(FIGURES) - 1)
    assert len(marks_of(page.document)) == len(FIGURES) - 1 and page.console == []


@pytest.mark.soak
def test_charts_far_down_are_drawn_for_the_printer(tmp_path: Path) -> None:
    path = tmp_path / "sweep.html"
    html = swept(ACKS, MIN_ISR, ("partitions", tuple("123456789")))
    printed = '<script>setTimeout(() => dispatchEvent(new Event("beforeprint")), 500)</script>'
    for script, is_drawn in (("", False), (printed, True)):
        path.write_text(html + script, encoding="utf-8")
        page = opened(path, tmp_path)
        charts = page.document.split('<figure class="chart"')[1:]
        assert len(charts) == 9 * len(FIGURES) and page.console == []
        assert ('class="marks"' in charts[0], 'class="marks"' in charts[-1]) == (True, is_drawn)


# ------------------------------------------------------------------------------------------------------- the search


def searched(mode: str, played: int, *findings: tuple[str, list[int], bool]) -> dict[str, Any]:
    """A search as its command hands it to the page. findings: kind, runs that showed it, whether it is a bug"""
    found = [
        {
            "kind": kind, "runs": runs, "our_bug": is_bug, "cause": cause_of(kind, our_bug=is_bug), "sentence": "S",
            "first_seed": 1, "shown_seed": 2,
            "settings": "3 brokers", "file": "search/x.yaml", "shrunk": True, "steps": [("1.000 s", "kill: b1")],
        }
        for kind, runs, is_bug in findings
    ]  # fmt: skip
    of = {"era": "kafka-2.0", "mode": mode, "safe": False, "seeds": f"1..{played}", "asked": 10, "played": played}
    broke = len({run for _, runs, _ in findings for run in runs})
    return {**of, "broke_something": broke, "findings": found}


A_SEARCH = searched("swarm", 6, ("lost", [3, 6], True), ("S25", [2], False))


def test_a_search_shows_what_was_found_and_draws_when(tmp_path: Path) -> None:
    path = tmp_path / "search.html"
    path.write_text(search_page.render(A_SEARCH, "As fast as it was."), encoding="utf-8")
    page = opened(path, tmp_path, height=ALL_OF_IT)
    assert (page.console, page.asked) == ([], [])
    assert marks_of(page.document) == [{"Kinds of findings so far": Counter(line=1, symbol=2)}]
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", page.document))
    assert "run 1 " in text and "run 6 " in text and "run 0" not in text
    assert "3 of 6 schedules broke something, in 2 ways: lost is a bug in Highwater." in text
    assert "ended early after 6 of 10 runs" in text and "kill: b1" in text and "highwater run search/x.yaml" in text


@pytest.mark.soak
def test_a_searchs_charts_are_as_wide_as_the_window(tmp_path: Path) -> None:
    path = tmp_path / "search.html"
    path.write_text(search_page.render(searched("blind", 300, ("S25", [2], False)), ""), encoding="utf-8")
    fades = "document.querySelector('.chart').classList.contains('more-right')"
    with chromium() as browser:
        for width in (420, 1280):
            with driven(browser, path.as_uri(), width, ready=".canvas svg.marks") as shown:
                assert not shown.page.evaluate(fades)


@pytest.mark.parametrize(
    ("last", "ticks"),
    [(0, [1]), (1, [1]), (3, [1, 2, 3]), (100, [1, *range(10, 101, 10)]), (1001, [1, 200, 400, 600, 800, 1000])],
)
def test_an_axis_of_runs_begins_with_the_first(last: int, ticks: list[int]) -> None:
    assert run_ticks(last) == ticks


@pytest.mark.parametrize(
    ("search", "said"),
    [
        (
            searched("blind", 100),
            "Nothing broke in 100 schedules; at most 3.7 % of all such schedules break something (95 % confidence).",
        ),
        (
            searched("blind", 1, ("S25", [1], False)),
            "1 of 1 schedule broke something, in 1 way: the rules of kafka-2.0 allow it.",
        ),
        (
            searched("blind", 3, ("S25", [1], False), ("S32 forgotten-marker", [2], False)),
            "2 of 3 schedules broke something, in 2 ways: S32 forgotten-marker is promised by no release of Kafka; the "
            "rules of kafka-2.0 allow the rest.",
        ),
    ],
)
def test_the_headline_of_a_search(search: dict[str, Any], said: str) -> None:
    assert search_page.headline(search) == said


# --------------------------------------------------------------------------------------------------- accessibility


@pytest.mark.skipif(axe_core() is None, reason="axe-core is not installed here (npm install axe-core, NODE_PATH)")
@pytest.mark.soak
@pytest.mark.parametrize("page", ["report", "sweep", "search"])
def test_axe_finds_nothing_in_either_theme(page: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    axe, path = axe_core(), tmp_path / "page.html"
    assert axe is not None
    if page == "report":
        path = request.getfixturevalue("report").path
    else:
        path.write_text(swept(ACKS, MIN_ISR) if page == "sweep" else search_page.render(A_SEARCH, ""))
    with chromium() as browser:
        for width, theme in ((1400, "light"), (1400, "dark"), (420, "light")):
            address, ready = path.as_uri(), ".canvas svg.marks"
            with driven(browser, address, width, color_scheme=theme, ready=ready) as shown:
                shown.page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
                shown.settle()
                shown.page.evaluate(axe.read_text(encoding="utf-8"))
                found = "axe.run().then((found) => found.violations.map((one) => [one.id, one.nodes[0].html]))"
                assert shown.page.evaluate(found) == [], (theme, width)
                assert shown.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (theme, width)


# -------------------------------------------------------------------------------------------------- the follow page


def test_the_page_of_a_run_as_it_goes_shows_every_replica(tmp_path: Path) -> None:
    def partition(number: int, leader: str | None) -> PartitionNow:
        replicas = tuple(ReplicaNow(node, 1234, 3, 5, 100_000, node != "b2") for node in ("b1", "b2", "b3"))
        return PartitionNow("t", number, leader, 4, ("b1", "b3"), 3, replicas)

    path = tmp_path / "follow.html"
    internal = [InternalNow("__consumer_offsets", 50, 2)]
    path.write_text(follow.render(4_200_000, [partition(0, "b1"), partition(1, None)], internal), encoding="utf-8")
    page = opened(path, tmp_path, patience_ms=1000)
    assert (page.console, page.asked) == ([], [])
    assert page.document.count("<td>b") == 6 and page.document.count("♛ leader") == 1
    assert "no leader" in page.document and "50 partitions, 2 without a running leader" in page.document

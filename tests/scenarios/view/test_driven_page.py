"""The page under a reader's hands: keys, predict, compare, and what a screen reader finds. In a real browser."""

from __future__ import annotations

import gzip
import json
import re
import webbrowser
from base64 import b64decode
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest
from click.testing import CliRunner
from playwright.sync_api import Browser

from scenarios.cli.run import run
from scenarios.cli.view import write_page
from scenarios.explain.kept_outcomes import keep_outcomes
from scenarios.explain.what_if import RecordFate, SettingsChange
from scenarios.language.parse.catalogue import find_scenario
from scenarios.language.parse.loading import load_file, load_text
from scenarios.run.runner import run_scenario
from tests.browser import needs_chromium
from tests.driven import Driven, axe_core, driven
from tests.hostile_names import run_of_names

pytestmark = needs_chromium


ONE_RUN = "#r=0"
"""The address of a page of several runs that shows the first alone."""


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of one scenario with three levels of acks."""
    folder = tmp_path_factory.mktemp("three")
    file = load_file(find_scenario("acks1-leader-kill"))
    played = [file.scenario, file.variants["acks-all"], file.variants["acks-0"]]
    dirs = [run_scenario(scenario, runs_dir=folder, keep_logs=False).run_dir for scenario in played]
    return write_page([run_dir for run_dir in dirs if run_dir is not None], folder / "three.html")


def data_of(page: Path) -> list[dict[str, Any]]:
    packed = re.search(r'id="data">([A-Za-z0-9+/=]+)<', page.read_text(encoding="utf-8"))
    assert packed is not None
    runs: list[dict[str, Any]] = json.loads(gzip.decompress(b64decode(packed[1])))["runs"]
    return runs


def test_every_key_moves_what_it_says(browser: Browser, three: Path) -> None:
    (tape, *_) = (run["tape"] for run in data_of(three))
    keys = [place for place, sign in enumerate(tape["key"]) if sign]
    with driven(browser, three.as_uri() + ONE_RUN) as shown:
        assert shown.place() == data_of(three)[0]["opens_at"]
        shown.press("Home")
        assert shown.text(".clock") == "0.000 s"
        shown.press("ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft")
        assert shown.place() == 1
        shown.press("Home", "PageDown", "PageDown")
        assert shown.place() == keys[1]
        assert shown.text(".sentence").endswith(tape["texts"][tape["text"][keys[1]]])
        shown.press("End", "PageUp")
        assert shown.place() == keys[-1]

        stretch = (
            "(({ x, width }) => [x.baseVal.value, width.baseVal.value])(document.querySelector('.overview-window'))"
        )
        _, width = shown.page.evaluate(stretch)
        shown.press("w")
        assert (closer := shown.page.evaluate(stretch))[1] < width
        shown.press("a")
        assert (earlier := shown.page.evaluate(stretch))[0] < closer[0]
        shown.press("d", "s", "s")
        assert shown.page.evaluate(stretch)[1] > earlier[1]

        shown.press("Home", " ")
        assert shown.page.get_attribute(".play", "aria-label") == "Pause (space)"
        shown.page.wait_for_selector(".clock:not(:text-is('0.000 s'))")
        shown.press(" ")
        assert shown.page.get_attribute(".play", "aria-label") == "Play (space)"

        shown.press("v")
        assert shown.page.get_attribute("#tab-verdict", "aria-selected") == "true"
        shown.press("2")
        assert shown.moment()["r"] == "1"
        shown.press("?")
        assert shown.page.evaluate("document.querySelector('dialog').open")


def test_every_control_is_reached_by_tab(browser: Browser, three: Path) -> None:
    """Of the tabs, the chosen one: arrows lead to the others."""
    wanted = (
        "[...document.querySelectorAll('button, select, input, [tabindex]')].filter((one) =>"
        " one.checkVisibility() && !one.disabled && one.tabIndex >= 0)"
    )
    with driven(browser, three.as_uri() + ONE_RUN) as shown:
        count = shown.page.evaluate(f"(window.wanted = {wanted}).length")
        reached = set()
        for _ in range(count + 5):
            shown.page.keyboard.press("Tab")
            reached.add(shown.page.evaluate("wanted.indexOf(document.activeElement)"))
        assert count > 20 and set(range(count)) <= reached
        shown.page.focus("#tab-events")
        shown.press("ArrowRight")
        assert shown.page.evaluate("document.activeElement.id") == "tab-why"


VERDICTS = re.compile(r"records? lost\b|never arrived|gone with the leader", re.IGNORECASE)


def whole_page(shown: Driven) -> str:
    """Texts, titles, labels, values and the address: all that a reader could come upon, but for legend and options."""
    words: str = shown.page.evaluate(
        """() => {
          const copy = document.body.cloneNode(true);
          for (const one of copy.querySelectorAll("script, noscript, dialog, .legend, fieldset")) one.remove();
          const named = [...copy.querySelectorAll("[title], [aria-label], [aria-valuetext]")].flatMap((one) =>
            ["title", "aria-label", "aria-valuetext"].map((name) => one.getAttribute(name)));
          return [document.title, location.hash, copy.textContent, ...named].join("\\n");
        }"""
    )
    return words


@pytest.mark.soak
def test_predict_stops_asks_and_counts_and_gives_nothing_away(browser: Browser, three: Path) -> None:
    run = data_of(three)[0]
    tape, questions = run["tape"], run["questions"]
    with driven(browser, three.as_uri() + ONE_RUN) as shown:
        shown.press("h")
        for number, (before, ask, options, answer, because) in enumerate(questions):
            shown.page.wait_for_selector(f"form.question >> text={ask[:40]}")
            seen = {tape["text"][place] for place in range(before)}
            hidden = [tape["texts"][text] for text in tape["text"][before:] if text not in seen]
            for way in ([], ["End"], ["ArrowRight"] * 3, ["PageDown"], ["d", "s"], ["c"], ["End", "c"], ["y"], ["v"]):
                shown.page.evaluate("document.activeElement.blur()")
                shown.press(*way)
                words = whole_page(shown)
                assert not VERDICTS.search(words), (way, VERDICTS.split(words)[0][-200:])
                assert [text for text in hidden if text in words] == [], (number, way)
                assert because not in words
            assert shown.place() == before - 1
            shown.page.evaluate("location.hash = '#e=999999'")
            shown.settle()
            assert shown.place() == before - 1
            chosen = answer if number else (answer + 1) % len(options)
            shown.page.check(f"form.question input[value='{chosen}']")
            shown.page.click("form.question button[type=submit]")
            told = shown.text("form.question .result")
            assert because in told and ("Right" in told) == (chosen == answer)
            shown.page.click("text=See it happen")
        score = f"{len(questions) - 1} of {len(questions)} right so far"
        shown.page.wait_for_selector(f"text={score}. Press 2: acks-all asks, too. Or press h to leave.")


def test_a_page_that_predicts_begins_with_a_question_and_hides_the_end(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `highwater run --predict` opens it; the terminal names the page, and has not a word of the outcome either."""
    opened: list[str] = []

    def is_opened(address: str) -> bool:
        opened.append(address)
        return True

    monkeypatch.setattr(webbrowser, "open", is_opened)
    said = CliRunner().invoke(
        run, ["acks1-leader-kill", "--predict", "--no-logs", "--out", str(tmp_path)], standalone_mode=False
    )
    (address,) = opened
    page = Path(url2pathname(urlsplit(address).path))
    assert (said.return_value, said.stdout) == (0, f"  See it:  {page}\n")
    with driven(browser, address) as shown:
        assert shown.page.query_selector("form.question")
        assert not VERDICTS.search(whole_page(shown))
        assert shown.page.title() == "acks1-leader-kill - Highwater"
    assert not VERDICTS.search(page.read_text(encoding="utf-8").split("<style>")[0])


def test_three_levels_of_acks_stand_side_by_side(browser: Browser, three: Path) -> None:
    """From the start, and with the link that the page gives."""
    with driven(browser, three.as_uri()) as shown:
        shown.press("l")
        assert shown.page.evaluate("location.hash").endswith("&r=0&p=0&c=1")
        seats = shown.page.query_selector_all(".seat")
        verdicts = [seat.inner_text().split("\n")[:2] for seat in seats]
        assert [" ".join(words) for words in verdicts] == [
            "as written ✕ 5 acked records lost", "acks-all ✓ nothing lost", "acks-0 ✕ 5 never arrived",
        ]  # fmt: skip
        assert all(seat.query_selector("svg.stage .cell") for seat in seats)
        assert [len(seat.query_selector_all(".differs")) for seat in seats] == [0, 1, 1]
        assert "with p1 acks=all" in seats[1].inner_text()
        tops = [box["y"] for seat in seats if (box := seat.query_selector("svg.stage").bounding_box())]  # type: ignore[union-attr]
        assert len(set(tops)) == 1, "the stages stand at one height"
        shown.press("Home")
        assert shown.page.query_selector_all(".differs") == []


COUNTS_STAGES = """
  window.stages = 0;
  new MutationObserver((all) => { stages += all.filter((one) => one.target.className === "stage-box").length; })
    .observe(document, { childList: true, subtree: true });
"""


@pytest.mark.parametrize("link", ["", ONE_RUN])
def test_the_stage_is_drawn_once_at_the_start(link: str, browser: Browser, three: Path) -> None:
    """Several runs are drawn at once: a second time costs a reader of long runs as much again."""
    context = browser.new_context()
    context.add_init_script(COUNTS_STAGES)
    page = context.new_page()
    page.goto(three.as_uri() + link)
    page.wait_for_selector("svg.stage", state="attached")
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert page.evaluate("stages") == 1
    context.close()


def test_a_hostile_run_is_text(browser: Browser, tmp_path: Path) -> None:
    page = write_page([run_of_names(tmp_path)], tmp_path / "page.html")
    assert "<script>alert" not in page.read_text(encoding="utf-8")
    with driven(browser, page.as_uri()) as shown:
        shown.press("y", "v", "e", "x")
        assert shown.page.evaluate("document.querySelectorAll('script').length") == 2
        words = whole_page(shown)
        assert "<script>alert(1)</script>" in words and "\\u202e" in words
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]", words)


@pytest.mark.soak
def test_why_shows_what_other_runs_found_and_partitions_show_every_broker(browser: Browser, tmp_path: Path) -> None:
    result = run_scenario(load_file(find_scenario("one-in-flight-two-leaders")).scenario, runs_dir=tmp_path)
    assert result.run_dir is not None
    record = result.summary["records"]["acked"][0]
    saves, fails = (SettingsChange(what, ()) for what in ("<b>acks</b>", "replication factor 4"))
    fates = [RecordFate(saves, record, "kept", (), 0), RecordFate(fails, record, "lost", (), 0)]
    keep_outcomes(result.run_dir, result.summary["trace_sha256"], {record: fates})
    page = write_page([result.run_dir], tmp_path / "page.html")
    with driven(browser, page.as_uri()) as shown:
        shown.press("y")
        shown.page.fill("#record", record)
        shown.press("Enter")
        words = shown.text(".what-if").split("\n")
        assert [word for word in words if word.strip()] == [
            "Played again 2 times with the same seed, one thing changed each time.",
            "✓ Saves it", "<b>acks</b>", "acked and kept",
            "✕ Does not save it", "replication factor 4", "acked and lost all the same",
        ]  # fmt: skip
        shown.page.evaluate("document.activeElement.blur()")
        shown.press("o", "Home")
        (run,) = data_of(page)
        names = shown.page.eval_on_selector_all("tbody th button", "(all) => all.map((one) => one.textContent)")
        assert names == run["tape"]["partitions"]
        assert set(shown.page.eval_on_selector_all(".standing", "(all) => all.map((one) => one.textContent)")) == {
            "not started"
        }
        bars = shown.page.eval_on_selector_all(".bar svg", "(all) => all.map((one) => one.getAttribute('aria-label'))")
        assert [re.sub(r" from [\d.]+ s", "", bar) for bar in bars] == [
            "b1: leader, in the ISR", "b2: in the ISR, leader", "b3: in the ISR",
            "b1: in the ISR", "b2: leader", "b3: in the ISR",
        ]  # fmt: skip
        assert shown.complaints == []


EVERY_STANDING = """
schema: 1
id: every-standing
title: One follower is frozen until it is out, another is killed
seed: 1
duration: 20s
cluster: {controllers: [c1], brokers: {b1: {}, b2: {}, b3: {}}}
topics: {t: {partitions: {0: [b1, b2, b3], 1: [b1, b3, b2]}}}
workloads: {p1: {kind: producer, topic: t, rate: 5/s, stop: 15s, config: {acks: 1}}}
timeline:
  - {at: 2s, pause: b3}
  - {at: 14s, resume: b3}
  - {at: 3s, kill: b2}
expect: {}
"""


@pytest.mark.soak
def test_the_legend_of_partitions_has_each_standing_once(browser: Browser, tmp_path: Path) -> None:
    result = run_scenario(load_text(EVERY_STANDING, "every-standing").scenario, runs_dir=tmp_path, keep_logs=False)
    assert result.run_dir is not None
    page = write_page([result.run_dir], tmp_path / "page.html")
    kinds = "(all) => all.map((one) => one.getAttribute('class').split(' ')[1])"
    with driven(browser, page.as_uri()) as shown:
        shown.press("o")
        drawn = shown.page.eval_on_selector_all(".bar path", kinds)
        listed = shown.page.eval_on_selector_all(".overview-pane .legend path", kinds)
        assert len(listed) == 7 and sorted(set(drawn)) == sorted(listed)


def test_the_ribbons_of_a_deleted_topic_end_with_it_and_begin_again(browser: Browser, tmp_path: Path) -> None:
    result = run_scenario(load_file(find_scenario("topic-deleted")).scenario, runs_dir=tmp_path, keep_logs=False)
    assert result.run_dir is not None
    page = write_page([result.run_dir], tmp_path / "page.html")
    with driven(browser, page.as_uri()) as shown:
        titles = shown.page.eval_on_selector_all(".strip .ribbon title", "(all) => all.map((one) => one.textContent)")
    leading = [title for title in titles if "leader" in title]
    assert len(leading) == 2 and re.search(r" to 10\.\d+ s$", leading[0]) and ": leader, 20." in leading[1]


def test_the_legend_of_messages_has_each_kind_that_is_drawn(browser: Browser, three: Path) -> None:
    kinds = "(all) => [...new Set(all.map((one) => one.getAttribute('class').split(' ')[1]))]"
    with driven(browser, three.as_uri() + ONE_RUN) as shown:
        listed = shown.page.eval_on_selector_all(".legend .message", kinds)
        drawn: dict[str, None] = {}
        shown.press("Home")
        for _ in range(12):
            shown.press("PageDown", *["ArrowRight"] * 3)
            drawn.update(dict.fromkeys(shown.page.eval_on_selector_all(".wire .message", kinds)))
        assert {"records", "ack", "fetch", "control"} <= {*drawn} <= {*listed}
        assert shown.page.is_visible(".of-messages")
        shown.page.set_viewport_size({"width": 420, "height": 800})
        shown.settle()
        assert not shown.page.query_selector(".wire") and not shown.page.is_visible(".of-messages")


@pytest.mark.parametrize(("width", "height"), [(1280, 720), (420, 800)])
def test_the_transport_is_in_sight_on_small_screens(width: int, height: int, browser: Browser, three: Path) -> None:
    """Also where the stages are taller than the screen; and the page is never wider than it."""
    for link in ("", ONE_RUN):
        with driven(browser, three.as_uri() + link, width, height) as shown:
            assert shown.page.evaluate("document.documentElement.scrollWidth") == width
            box = shown.page.query_selector(".transport .play").bounding_box()  # type: ignore[union-attr]
            assert box is not None and box["y"] > 0 and box["y"] + box["height"] <= height
            shown.page.focus(".strip-box")
            strip = shown.page.query_selector(".strip-box").bounding_box()  # type: ignore[union-attr]
            bar = shown.page.query_selector(".transport").bounding_box()  # type: ignore[union-attr]
            assert strip is not None and bar is not None and strip["y"] >= bar["y"] + bar["height"]


@pytest.mark.skipif(axe_core() is None, reason="axe-core is not installed here (npm install axe-core, NODE_PATH)")
@pytest.mark.soak
def test_axe_finds_nothing_in_any_theme(browser: Browser, three: Path) -> None:
    with driven(browser, three.as_uri() + ONE_RUN) as shown:
        for way in ("e", "y", "v", "c", "h"):
            shown.press(way)
            no_violations_in_any_theme(shown)


@pytest.mark.skipif(axe_core() is None, reason="axe-core is not installed here (npm install axe-core, NODE_PATH)")
@pytest.mark.soak
def test_axe_finds_nothing_in_an_overview_of_100_partitions(browser: Browser, tmp_path: Path) -> None:
    text = EVERY_STANDING.replace("{0: [b1, b2, b3], 1: [b1, b3, b2]}", "100, replication_factor: 3")
    result = run_scenario(load_text(text, "every-standing").scenario, runs_dir=tmp_path, keep_logs=False)
    assert result.run_dir is not None
    with driven(browser, write_page([result.run_dir], tmp_path / "page.html").as_uri()) as shown:
        shown.press("o")
        assert shown.page.locator(".overview-pane tbody th button").count() == 100
        no_violations_in_any_theme(shown)
        shown.page.set_viewport_size({"width": 420, "height": 800})
        shown.settle()
        assert shown.page.evaluate("document.documentElement.scrollWidth") == 420
        assert shown.complaints == []


def no_violations_in_any_theme(shown: Driven) -> None:
    axe = axe_core()
    assert axe is not None
    shown.page.evaluate(axe.read_text(encoding="utf-8"))
    for theme in ("dark", "projector", "light"):
        shown.press("t")
        assert shown.page.get_attribute("html", "data-theme") == theme
        found = shown.page.evaluate(
            "axe.run().then((found) => found.violations.map((one) => [one.id, one.nodes[0].html]))"
        )
        assert found == [], theme

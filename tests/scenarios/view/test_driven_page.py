"""The page under a reader's hands: keys, predict, compare, and what a screen reader finds. In a real browser."""

from __future__ import annotations

import gzip
import json
import re
import webbrowser
from base64 import b64decode
from importlib.resources import files
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


def run_of(text: str, folder: Path) -> Path:
    """The folder of a run of a scenario as YAML."""
    run_dir = run_scenario(load_text(text, "run.yaml").scenario, runs_dir=folder, keep_logs=False).run_dir
    assert run_dir is not None
    return run_dir


def data_of(page: Path) -> list[dict[str, Any]]:
    packed = re.search(r'id="data">([A-Za-z0-9+/=]+)<', page.read_text(encoding="utf-8"))
    assert packed is not None
    runs: list[dict[str, Any]] = json.loads(gzip.decompress(b64decode(packed[1])))["runs"]
    return runs


@pytest.mark.soak
def test_no_line_of_a_growing_log_falls_where_many_steps_share_a_pixel(browser: Browser, tmp_path: Path) -> None:
    """Records come every 5 ms for a second, then every 2 s: the window of the whole run has both."""
    text = """schema: 1
id: bursts
title: A burst and single records
seed: 1
duration: 60s
cluster: {brokers: {b1: {}, b2: {}}}
topics: {t: {partitions: {0: [b1, b2]}}}
workloads: {p1: {kind: producer, topic: t, config: {acks: all}}}
timeline:
  - {at: 1s, produce: {from: p1, count: 1}, every: 5ms, times: 200}
  - {at: 10s, produce: {from: p1, count: 1}, every: 2s, times: 20}
"""
    run_dir = run_scenario(load_text(text, "bursts.yaml").scenario, runs_dir=tmp_path, keep_logs=False).run_dir
    assert run_dir is not None
    with driven(browser, write_page([run_dir], tmp_path / "bursts.html").as_uri()) as shown:
        shown.press(*["s"] * 8)
        drawn = "all => all.map((one) => one.getAttribute('d'))"
        lines = shown.page.eval_on_selector_all(".leo-line, .water-line", drawn)
        heights = [[float(y) for y in re.findall(r"V([\d.]+)", line)] for line in lines[:3]]
        assert len(heights) == 3 and all(found == sorted(found, reverse=True) for found in heights if found)


@pytest.mark.soak
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


@pytest.mark.soak
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


VERDICTS = re.compile(r"records? lost\b|\bmissing\b|gone with the leader", re.IGNORECASE)


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
        for number, (before, ask, options, answer, because, known, _) in enumerate(questions):
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
            told, later = shown.text("form.question .result"), questions[number + 1 :]
            if later and later[0][0] <= known:
                assert "Noted." in told and because not in told
            else:
                assert because in told and ("Right" in told) == (number > 0)
            assert not [fact for *_, fact, _, _ in later if fact in told], "an answer gives a later question away"
            shown.page.click("form.question .result button")
        shown.page.wait_for_selector(".sheet")
        sheet = shown.page.eval_on_selector_all(
            ".sheet tbody tr", "(all) => all.map((row) => [...row.cells].map((one) => one.innerText))"
        )
        assert [(row[2], row[3], row[5] == "\u2713 right") for row in sheet] == [
            (ask, options[answer if number else (answer + 1) % len(options)], number > 0)
            for number, (_, ask, options, answer, *_) in enumerate(questions)
        ]
        assert all(because in row[4] for row, (*_, because, _, _) in zip(sheet, questions, strict=True))
        shown.page.emulate_media(media="print")
        assert shown.page.is_visible(".sheet table") and not shown.page.is_visible(".columns, .sheet-actions")
        shown.page.emulate_media(media="screen")
        shown.page.click("text=Save as CSV")
        assert shown.text(".sheet [role=alert]") == "Write your name first."
        shown.page.keyboard.type("Ada")
        assert shown.text(".sheet [role=alert]") == ""
        with shown.page.expect_download() as saved:
            shown.page.click("text=Save as CSV")
        assert len(saved.value.path().read_text(encoding="utf-8").splitlines()) == 1 + len(questions)
        score = f"{len(questions) - 1} of {len(questions)} right so far"
        shown.page.wait_for_selector(f"text={score}. Press 2: acks=all asks, too. Or press h to leave.")


@pytest.mark.soak
@pytest.mark.parametrize(("width", "height", "least"), [(1280, 720, 1.0), (420, 800, 0.4)])
def test_a_question_leaves_the_stage_in_sight(
    browser: Browser, three: Path, width: int, height: int, least: float
) -> None:
    """All of it beside the question; on a phone at least the end of it above the question."""
    in_sight = """(stage) => {
      const { top, bottom } = stage.getBoundingClientRect();
      const { top: end } = document.querySelector(".transport").getBoundingClientRect();
      return (Math.min(bottom, end) - Math.max(top, 0)) / (bottom - top);
    }"""
    with driven(browser, three.as_uri() + ONE_RUN, width, height) as shown:
        shown.press("h")
        shown.page.wait_for_selector("form.question")
        assert shown.page.eval_on_selector("svg.stage", in_sight) >= least
        shown.page.check("form.question input >> nth=0")
        shown.page.click("form.question button[type=submit]")
        shown.page.wait_for_selector("form.question .result button")
        assert shown.page.eval_on_selector("svg.stage", in_sight) >= least


RACKS = """
schema: 1
id: racks
title: Racks, and brokers without a replica
duration: 10s
cluster: {controllers: [c1], brokers: {b1: {rack: A}, b2: {rack: B}, b3: {}, b4: {rack: A}, b5: {}}}
topics: {t: {partitions: {0: [b1, b2, b3]}}}
workloads: {p1: {kind: producer, topic: t, rate: 1/s, config: {acks: all}}}
timeline:
  - {at: 5s, kill: b5}
"""


@pytest.mark.soak
def test_racks_and_brokers_without_a_replica_are_on_the_stage(browser: Browser, three: Path, tmp_path: Path) -> None:
    run_dir = run_scenario(load_text(RACKS, "racks.yaml").scenario, runs_dir=tmp_path, keep_logs=False).run_dir
    assert run_dir is not None
    page = write_page([run_dir], tmp_path / "racks.html")
    for width in (1280, 420):
        with driven(browser, page.as_uri() + "#t=8", width, 800) as shown:
            lanes = shown.page.locator(".lane.broker").all_text_contents()
            assert ["rack A" in lanes[0], "rack B" in lanes[1], "rack" in lanes[2]] == [True, True, False]
            others = shown.page.locator(".stage .other")
            assert others.all_text_contents() == ["b4, rack A", "b5, DOWN"]
            assert [other.get_attribute("data-node") for other in others.all()] == ["b4", "b5"]
            assert "b1, rack A is" in (shown.page.get_attribute("svg.stage", "aria-label") or "")
    with driven(browser, three.as_uri() + ONE_RUN) as shown:
        assert shown.page.locator(".stage .other").count() == 0


@pytest.mark.soak
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


@pytest.mark.soak
def test_three_levels_of_acks_stand_side_by_side(browser: Browser, three: Path) -> None:
    """From the start, and with the link that the page gives."""
    with driven(browser, three.as_uri()) as shown:
        shown.press("l")
        assert shown.page.evaluate("location.hash").endswith("&r=0&p=0&c=1")
        seats = shown.page.query_selector_all(".seat")
        verdicts = [seat.inner_text().split("\n")[:2] for seat in seats]
        assert [" ".join(words) for words in verdicts] == [
            "acks=1 ✕ 5 acked records lost", "acks=all ✓ nothing lost", "acks=0 ○ 5 missing",
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


@pytest.mark.soak
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


@pytest.mark.soak
def test_predict_shows_the_partition_it_asks_about_and_leads_to_the_sheet(browser: Browser, tmp_path: Path) -> None:
    text = EVERY_STANDING.replace("topic: t,", "topic: t, partition: 1,").replace("kill: b2", "kill: b1")
    page = write_page([run_of(text, tmp_path)], tmp_path / "page.html")
    chosen = "[...document.querySelector('[aria-label=Partition]').selectedOptions].map((one) => one.text).join()"
    with driven(browser, page.as_uri(), 1280, 720) as shown:
        shown.page.select_option("[aria-label=Partition]", "t-0")
        assert shown.page.evaluate(chosen) == "t-0"
        shown.press("h")
        while shown.page.locator("form.question").count():
            assert shown.page.evaluate(chosen) == "t-1"
            shown.page.check("form.question input >> nth=0")
            shown.page.click("form.question button[type=submit]")
            shown.page.click("form.question .result button")
            shown.press("End")
        shown.page.evaluate("scrollTo(0, 0)")
        shown.page.click(".score button")
        assert shown.page.evaluate("document.activeElement.id") == "student"


@pytest.mark.soak
def test_why_says_what_can_be_asked(browser: Browser, three: Path) -> None:
    with driven(browser, three.as_uri() + ONE_RUN) as shown:
        shown.press("y")
        for wanted, said in (
            ("12", "This run has no record 12. Do you mean r12?"),
            ("r99", "This run has no record r99."),
            ("t-0", "t-0 is a partition: highwater explain RUN t-0 tells of it. Here, ask for a record, such as r0."),
        ):
            shown.page.fill("#record", wanted)
            shown.press("Enter")
            assert shown.text(".why [role=alert]") == said
        shown.page.fill("#record", "r12")
        shown.press("Enter")
        assert shown.text(".why [role=alert]") == "" and shown.text(".why .ending").startswith("r12 ")


@pytest.mark.soak
def test_a_log_that_ends_before_the_window_is_marked_and_words_stay_in_their_room(
    browser: Browser, tmp_path: Path
) -> None:
    """A broker comes back whose log is far behind, and is cut."""
    file = Path(str(files("scenarios.play"))) / "three-brokers.yaml"
    steps = "timeline: [{at: 5s, kill: b1}, {at: 20s, start: b1}]"
    text = file.read_text(encoding="utf-8").replace("timeline: []", steps).replace("60s", "30s")
    page = write_page([run_of(text, tmp_path)], tmp_path / "page.html")
    with driven(browser, page.as_uri(), 1280, 720) as shown:
        for at, end in ((20.1, 25), (22.1, 20)):
            shown.page.evaluate(f"location.hash = '#r=0&t={at}'")
            shown.settle()
            words = shown.page.locator(".lane.broker[data-node=b1] text").all_text_contents()
            assert {f"ends at {end}", "follower", "out of the ISR"} <= {*words}
        shown.press("End")
        assert shown.page.text_content(".lane.consumer .ends-before") == "ends at 135"
        assert "10 behind" in (shown.page.text_content(".lane.broker[data-node=b1] .figures") or "")
        too_long = "(all) => all.filter((one) => one.getComputedTextLength() > Number(one.dataset.room) + 1).length"
        for _ in range(3):
            shown.press("t")
            assert shown.page.eval_on_selector_all("[data-room]", too_long) == 0


@pytest.mark.soak
def test_runs_side_by_side_have_one_offset_axis_where_it_fits_all(browser: Browser, three: Path) -> None:
    offsets = "(all) => all.map((one) => [...one.querySelectorAll('.offset')].map((text) => text.textContent).join())"
    sticks_out = """(all) => all.some((one) => [...one.querySelectorAll('.slot')].some((slot) =>
      slot.getBoundingClientRect().right > one.getBoundingClientRect().right))"""
    with driven(browser, three.as_uri() + "#r=0&t=10.4&c=1", 1280, 720) as shown:
        ends = set(shown.page.locator(".seat .flag-text.leo").all_text_contents())
        assert {"LEO 10", "LEO 11", "LEO 15"} == ends
        (axis,) = set(shown.page.eval_on_selector_all(".seat", offsets))
        assert axis
        assert not shown.page.eval_on_selector_all(".seat", sticks_out)
        widths = "(all) => all.map((one) => [one.clientWidth, Number(one.getAttribute('width'))])"
        assert all(drawn == wide for drawn, wide in shown.page.eval_on_selector_all(".seat svg.stage", widths))


@pytest.mark.soak
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
            "✕ Does not save it", "replication factor 4", "acked, but lost",
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


@pytest.mark.soak
def test_the_ribbons_of_a_deleted_topic_end_with_it_and_begin_again(browser: Browser, tmp_path: Path) -> None:
    result = run_scenario(load_file(find_scenario("topic-deleted")).scenario, runs_dir=tmp_path, keep_logs=False)
    assert result.run_dir is not None
    page = write_page([result.run_dir], tmp_path / "page.html")
    with driven(browser, page.as_uri()) as shown:
        titles = shown.page.eval_on_selector_all(".strip .ribbon title", "(all) => all.map((one) => one.textContent)")
    leading = [title for title in titles if "leader" in title]
    assert len(leading) == 2 and re.search(r" to 10\.\d+ s$", leading[0]) and ": leader, 20." in leading[1]


@pytest.mark.soak
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


@pytest.mark.soak
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


@pytest.mark.soak
def test_the_verdict_says_when_the_usual_alerts_fire(browser: Browser, three: Path) -> None:
    with driven(browser, three.as_uri() + ONE_RUN) as shown:
        shown.press("v")
        pane = shown.text(".pane")
        fires = r"UnderReplicatedPartitions: ([\d.]+) s \(true since ([\d.]+) s, for: 10s\), ([\d.]+) s after the"
        at, since, after = re.search(fires, pane).groups()  # type: ignore[union-attr]
        assert round((float(at) - float(since)) * 1e6) == 10_000_000
        assert "OfflinePartitions: never\n" in pane
        lost_us = data_of(three)[0]["head"]["lost_us"]
        assert round((float(at) - float(after)) * 1e6) == lost_us
        sha256 = json.loads((three.parent / "0001-acks1-leader-kill" / "summary.json").read_text())["trace_sha256"]
        assert f"trace {sha256[:8]}\u2026" in pane
        assert shown.page.locator(".all-runs tbody tr").count() == 3, "a run is a row, so that words stay whole"
        shown.page.click(f".pane button:text-is('{at} s'), .pane a:text-is('{at} s')")
        shown.page.locator(".clock", has_text=f"{at} s").wait_for(timeout=10_000)

"""`highwater play`: a click on a broker makes a new future; nobody else may ask for one."""

from __future__ import annotations

import http.client
import json
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any

import pytest
import trio

from scenarios.language.parse.catalogue import find_scenario
from scenarios.language.parse.loading import load_file, load_text
from scenarios.play import playing as playing_module
from scenarios.play.futures import Futures
from scenarios.play.playing import Playing
from scenarios.run.runner import run_scenario
from scenarios.serve.page_server import BODY_BYTES_MAX, open_shared_door
from tests.browser import needs_chromium
from tests.driven import axe_core, chromium, driven

AXE_MODES = [(1280, 720), (420, 800)]
GO_TO = ".transport .time-field"


@contextmanager
def addresses(*words: str) -> Iterator[list[str]]:
    """Those that it prints."""
    command = [sys.executable, "-m", "scenarios.cli", "play", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            lines = takewhile(lambda line: "Ctrl-C" not in line, iter(process.stdout.readline, ""))
            yield [found[0] for line in lines if (found := re.search(r"http://\S+", line))]
        finally:
            process.send_signal(signal.SIGINT)
    assert process.returncode == 0


@contextmanager
def playing(*words: str) -> Iterator[str]:
    """The address of its page."""
    with addresses(*words) as (address,):
        yield address


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with playing("acks1-leader-kill") as found:
        yield found


def post(address: str, what: str, body: bytes, **headers: str) -> tuple[int, Any]:
    host, port, token = re.findall(r"http://([\d.]+):(\d+)/(\S+)/", address)[0]
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    given = {"Origin": f"http://{host}:{port}", **headers}
    connection.request("POST", f"/{token}/{what}", body, {name: value for name, value in given.items() if value})
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    return answer.status, json.loads(text) if answer.status == 200 else text


def asked(address: str, what: str, request: object) -> Any:
    status, answer = post(address, what, json.dumps(request).encode())
    assert status == 200
    return answer


@pytest.mark.soak
def test_a_future_is_made_judged_and_deleted(address: str) -> None:
    made = asked(address, "future", {"parent": 0, "words": ["kill", "b2"], "now_us": 9_000_000})
    future = made["future"]
    assert future["name"] == "+ kill b2 at 9.001 s" and made["run"]["differs"][0] == 9_001_000
    played = run_scenario(load_text(future["text"], "downloaded.yaml").scenario, runs_dir=None)
    assert played.summary["verdict"] == made["run"]["head"]["verdict"]
    judged = asked(address, "verdict", {"parent": 0, "move": [1, 10_400_000]})
    assert judged == {"verdict": [], "lost": 0}  # Held back when all records had been fetched.
    assert made["run"]["head"]["trace_sha256"] == played.summary["trace_sha256"]
    child = asked(address, "future", {"parent": future["number"], "words": ["start", "b2"], "now_us": 12_000_000})
    numbers = [future["number"], child["future"]["number"]]
    assert asked(address, "delete", {"number": numbers[0]}) == {"gone": numbers}
    assert "may have been deleted" in asked(address, "verdict", {"parent": numbers[0], "remove": 0})["error"]
    assert asked(address, "restore", {}) == {"restored": [made, child]}
    assert asked(address, "delete", {"number": numbers[0]}) == {"gone": numbers}


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        ({"parent": 0, "words": ["kill", "b9"], "now_us": 1}, "unknown node `b9`"),
        ({"parent": 0, "words": ["burn", "b1"], "now_us": 1}, "unknown fault `burn`"),
        ({"parent": 0, "text": "schema: 1"}, "error["),
        ({"parent": 0, "move": [99, 1]}, "no step 100"),
        ({"parent": "0", "remove": 0}, "must be a number"),
        ({"parent": 0, "last": [2, "long"]}, "no change that Highwater knows"),
        ({"parent": 0}, "no change that Highwater knows"),
        ([], "a JSON object"),
    ],
)
def test_what_cannot_be_is_said(address: str, request_: object, why: str) -> None:
    assert why in asked(address, "future", request_)["error"]


def test_only_the_page_is_answered(address: str) -> None:
    body = json.dumps({"parent": 0, "words": ["kill", "b2"], "now_us": 1}).encode()
    assert post(address, "future", body, Origin="")[0] == 403
    assert post(address, "future", body, Origin="http://evil.example")[0] == 403
    assert post(address, "future", body, **{"Sec-Fetch-Site": "cross-site"})[0] == 403
    assert post(address, "future", body, Host="evil.example")[0] == 421
    assert post(address, "events", body)[0] == 404
    assert post(address[:-2] + "/", "future", body)[0] == 404
    assert post(address, "future", b" " * (BODY_BYTES_MAX + 1))[0] == 413
    assert "JSON" in post(address, "future", b"[" * 100_000)[1]["error"]


@needs_chromium
def test_a_click_on_a_broker_makes_a_new_future() -> None:
    with playing("acks1-leader-kill") as found, chromium() as browser, driven(browser, found, 1280, 720) as page:
        page.page.evaluate("location.hash = '#t=9.000&e=-1&r=0&p=0'")
        page.settle()
        page.page.click("g.lane.broker[data-node=b2] .badge-name")
        assert page.text("dialog.breaking h2") == "At 9.001 s", "when the step happens"
        assert page.page.is_disabled("dialog.breaking button >> text=/^Start$/")
        page.page.click("dialog.breaking button >> text=/^Kill$/")
        page.page.wait_for_selector(".future[aria-pressed=true] >> text=kill b2 at 9.001 s")
        page.page.wait_for_selector("svg.stage[aria-label*='b2 is down']", state="attached")
        page.press("u")
        page.page.wait_for_selector(".future[aria-pressed=true] >> text=as written")
        page.press("b")
        page.page.select_option("dialog.breaking select", "p1")
        page.page.click("dialog.breaking button >> text=acks=all")
        page.page.wait_for_selector(".future[aria-pressed=true] >> text=p1 acks=all")
        page.press("End", "b")
        page.page.wait_for_selector("dialog.breaking[open]")
        page.page.select_option("dialog.breaking select", "p1")
        page.page.click("dialog.breaking button >> text=acks=0")
        page.page.wait_for_selector(".future[aria-pressed=true] >> text=p1 acks=0")
        page.settle()
        assert page.text(".clock") == "60.000 s", "at the end it does not begin again"
        page.page.click("text=Delete this future")
        page.page.wait_for_selector(".future[aria-pressed=true] >> text=p1 acks=all")
        page.page.fill(GO_TO, "9")
        page.page.press(GO_TO, "Enter")
        page.press("c")
        assert page.page.locator(".seat").count() == 2
        page.page.select_option(".play-bar select", label="\u00a0\u00a0+ kill b2 at 9.001 s")
        names = page.page.locator(".seat header button")
        names.filter(has_text="acks=1, kill b2 at 9.001 s").wait_for()
        assert names.all_inner_texts() == ["acks=1, kill b2 at 9.001 s", "acks=all, without kill b2 at 9.001 s"]
        page.page.wait_for_selector(".seat >> nth=1 >> .differs >> text=differs from acks=1, kill b2")
        names.first.click()
        page.settle()
        assert page.page.locator(".seat >> nth=0").get_attribute("class") == "seat on", "both stay"
        page.press("b")
        page.page.select_option("dialog.breaking select", "b3")
        page.page.click("dialog.breaking button >> text=/^Kill$/")
        page.page.wait_for_selector(".future[aria-pressed=true] >> text=kill b3")
        page.page.wait_for_selector(".seat >> nth=1 >> .differs")
        assert page.page.locator(".seat >> nth=0 >> .differs").count() == 0, "the future before that is not beside it"
        before = page.page.inner_text(".futures")
        page.page.click(".future >> text=/^\\+ kill b2/")
        page.page.click("text=Delete this future")
        page.page.wait_for_selector(".play-bar [role=status] >> text=Deleted 2 futures. Undo brings back")
        assert page.page.locator(".future").count() == 2
        page.press("v")
        rows = page.page.locator(".all-runs tbody th")
        assert rows.all_inner_texts() == ["as written", "p1 acks=all"], "none that is deleted"
        page.press("2")
        page.page.wait_for_selector(".future[aria-pressed=true] >> text=p1 acks=all")
        page.press("1")
        page.page.wait_for_selector(".future[aria-pressed=true] >> text=as written")
        assert page.page.locator(".future").all_inner_texts()[0].startswith("as written")
        page.press("u")
        page.page.wait_for_selector(".future[aria-pressed=true] >> text=kill b2")
        assert rows.count() == 4
        assert sorted(page.page.inner_text(".futures").splitlines()) == sorted(before.splitlines())
        page.page.click("summary")
        text = page.page.input_value("textarea")
        page.page.fill("textarea", text.replace("kill:", "kil:", 1))
        page.page.click("text=Play this text")
        said = page.page.wait_for_selector(".play-bar [role=status] >> text=error")
        assert said is not None
        lines = said.inner_text().splitlines()
        assert lines[0] == "error[E104]: unknown field `kil` in step 4", "and no warning before it"
        (above, below) = next(pair for pair in pairwise(lines) if "^^^" in pair[1])
        assert above.index("kil:") == below.index("^^^")


@pytest.mark.soak
@needs_chromium
def test_the_partition_and_a_link_are_clicked_on_the_stage() -> None:
    """Without a scenario: three brokers, of which nothing is known before 5 s."""
    with playing() as found, chromium() as browser, driven(browser, found, 1280, 720) as page:
        assert 4.5 < float(page.text(".clock").removesuffix(" s")) <= 5
        page.page.click(".stage [data-target='t-0']")
        assert page.page.input_value("dialog.breaking select") == "t-0"
        assert {"Elect as the leader (b2)", "Reassign to b2,b3,b1"} <= set(
            page.page.locator("dialog.breaking button").all_inner_texts()
        )
        page.press("Escape")
        page.page.locator(".stage [data-target='p1 b1'], .stage [data-target='b1 p1']").first.dispatch_event("click")
        page.page.wait_for_selector("dialog.breaking[open]")
        assert page.page.input_value("dialog.breaking select") == "b1 p1"
        page.page.click("dialog.breaking button >> text=Hold the acks from b1 to p1")
        page.page.wait_for_selector(".future[aria-pressed=true] >> text=hold Produce responses from b1 to p1")


@pytest.mark.soak
@needs_chromium
def test_the_menu_says_why_a_step_was_refused() -> None:
    """It covers the page."""
    with chromium() as browser, ExitStack() as until_it_ends:
        found = until_it_ends.enter_context(playing("acks1-leader-kill"))
        with driven(browser, found, 1280, 720) as page:
            page.page.click("g.lane.broker[data-node=b2] .badge-name")
            page.page.wait_for_selector("dialog.breaking[open]")
            assert page.page.text_content("dialog.breaking [role=status]") == ""
            until_it_ends.close()
            page.page.click("dialog.breaking button >> text=/^Slow its disk/")
            page.page.wait_for_selector("dialog.breaking [role=status] >> text=it has ended")
            page.complaints.clear()  # The browser reports that nothing answers.


@pytest.mark.soak
@needs_chromium
def test_a_fork_and_its_fork_are_downloaded_as_files_that_run_to_their_digests(tmp_path: Path) -> None:
    setting = "workloads.p1.rate=2/s"
    file = find_scenario("acks1-leader-kill")
    futures = Futures(load_text(file.read_text(encoding="utf-8"), file.name, [setting]).scenario)
    futures.add_step(0, 9_000_000, {"cut": {"between": ["b1", "b2"]}})
    futures.change_setting(1, "workloads.p1.config.acks=all")
    with (
        playing("acks1-leader-kill", "--set", setting) as address,
        chromium() as browser,
        driven(browser, address, 1280, 720) as page,
    ):
        page.page.evaluate("location.hash = '#t=9.000&e=-1&r=0&p=0'")
        page.settle()
        for number, (target, label, name) in enumerate(
            [("b1", "Cut the link (b2)", "cut"), ("p1", "acks=all", "p1 acks=all")], start=1
        ):
            page.press("b")
            page.page.select_option("dialog.breaking select", target)
            page.page.click(f"dialog.breaking button >> text={label}")
            page.page.wait_for_selector(f".future[aria-pressed=true] >> text={name}")
            with page.page.expect_download() as downloading:
                page.page.click("text=Download YAML")
            downloaded = tmp_path / f"future-{number}.yaml"
            downloading.value.save_as(downloaded)
            command = [sys.executable, "-m", "scenarios.cli", "run", str(downloaded), "--out", str(tmp_path / "runs")]
            told = subprocess.run([*command, "--format", "json"], capture_output=True, check=True)
            played = run_scenario(futures[number].scenario, runs_dir=None)
            assert json.loads(told.stdout)["trace_sha256"] == played.summary["trace_sha256"]


@pytest.mark.soak
@needs_chromium
def test_a_step_is_dragged_along_the_strip() -> None:
    """The kill at 10.5 s, to a moment before the acks of what it takes away: the badge changes."""
    with playing("acks1-leader-kill") as found, chromium() as browser, driven(browser, found, 1280, 900) as page:
        assert page.text(".pill") == "\u2715 5 acked records lost"
        page.page.dblclick(".strip-box svg", position={"x": 700, "y": 60})
        page.settle()
        mark = page.page.locator(".step-mark", has=page.page.locator("title", has_text="kill leader(t-0), 10.5"))
        mark.scroll_into_view_if_needed()
        box = mark.locator("path").bounding_box()
        assert box is not None
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        page.page.mouse.move(x, y)
        page.page.mouse.down()
        page.page.mouse.move(x - 60, y, steps=4)
        assert re.fullmatch(r"\d+\.\d{3} s", page.page.text_content(".dragged-to") or "")
        page.page.mouse.up()
        page.page.wait_for_selector(".future[aria-pressed=true] >> text=instead of 10.5 s")
        assert page.text(".pill") == "\u2713 nothing lost"
        assert page.page.locator(".dragged-to").count() == 0
        page.press("u")
        mark.locator("path").click()
        page.settle()
        assert page.text(".clock") == "10.500 s"


@pytest.mark.soak
@needs_chromium
def test_a_page_that_is_opened_again_has_all_futures_and_shows_the_same() -> None:
    with playing("acks1-leader-kill") as found, chromium() as browser, driven(browser, found, 1280, 720) as page:
        for broker in ("b2", "b3"):
            page.page.fill(GO_TO, "9")
            page.page.press(GO_TO, "Enter")
            page.page.click(f"g.lane.broker[data-node={broker}] .badge-name")
            page.page.click("dialog.breaking button >> text=/^Kill$/")
            page.page.wait_for_selector(f".future[aria-pressed=true] >> text=kill {broker}")
            page.press("u")
        page.page.click(".future >> text=kill b2")
        page.page.fill(GO_TO, "9.5")
        page.page.press(GO_TO, "Enter")
        shown = page.page.inner_text(".futures")
        assert shown.count("at 9.001 s") == 2
        with driven(browser, found, 420, 800) as second:
            second.page.wait_for_selector(".clock >> text=9.500 s")
            assert second.page.inner_text(".futures") == shown
        page.page.reload()
        page.page.wait_for_selector(".future[aria-pressed=true] >> text=kill b2")
        page.page.wait_for_selector(".clock >> text=9.500 s")
        assert page.page.inner_text(".futures") == shown
        page.press("u")
        page.page.wait_for_selector(".future[aria-pressed=true] >> text=as written")


@pytest.mark.soak
@needs_chromium
def test_a_time_is_typed_and_a_step_lasts_as_long_as_is_typed() -> None:
    with playing("acks1-leader-kill") as found, chromium() as browser, driven(browser, found, 1280, 720) as page:
        for typed, shown in (("10.3", "10.300 s"), (" 300 ms", "0.300 s"), ("1m", "60.000 s"), ("15.25 s", "15.250 s")):
            page.page.fill(GO_TO, typed)
            page.page.press(GO_TO, "Enter")
            page.settle()
            assert page.text(".clock") == shown
            assert page.page.locator(".strip .playhead").count() == 1, "it is in sight"
        page.page.fill(GO_TO, "soon")
        page.page.press(GO_TO, "Enter")
        assert page.text(".clock") == "15.250 s"
        assert "like 10.3 s" in page.text(".transport [role=alert]")
        lasts = page.page.get_by_label("How long it lasts: kill leader(t-0)")
        assert lasts.input_value() == ""
        lasts.fill("banana")
        lasts.press("Enter")
        assert "like 10.3 s" in page.text("label:has-text('for') [role=alert]:not(:empty)")
        lasts.fill("2")
        lasts.press("Enter")
        page.page.wait_for_selector(".future[aria-pressed=true] >> text=kill leader(t-0) at 10.5 s lasts 2s")
        at = page.page.get_by_label("Time of: kill leader(t-0)")
        assert at.input_value() == "10.500 s"
        at.fill("9.5")
        at.press("Enter")
        page.page.wait_for_selector(
            ".future[aria-pressed=true] >> text=kill leader(t-0), for 2s at 9.5 s instead of 10.5 s"
        )
        at = page.page.get_by_label("Time of: kill leader(t-0)")
        at.fill("99")
        at.press("Enter")
        page.page.wait_for_selector(".play-bar [role=status] >> text=the run ends at 60 s")
        assert at.input_value() == "9.500 s" and page.page.locator("button.future").count() == 3
        assert page.page.locator(".slide input:not([tabindex='-1'])").count() == 0, "a key there makes no future"
        assert page.page.get_by_label("How long it lasts: kill leader(t-0)").input_value() == "2s"


SHORT = """
schema: 1
id: short
title: A run that is soon played
duration: 10s
cluster: {controllers: [c1], brokers: {b1: {}, b2: {}}}
topics: {t: {partitions: {0: [b1, b2]}}}
workloads: {p1: {kind: producer, topic: t, rate: 1/s, config: {acks: 1}}}
timeline: [{at: 4s, pause: b2, for: 2s}]
"""


@pytest.mark.soak
@needs_chromium
def test_a_step_without_effect_is_marked_wherever_it_is_shown(address: str) -> None:
    """The leader of the file's kill is b1, killed before by a step of its own."""
    kill = {"parent": 0, "words": ["kill", "b1"], "now_us": 14_000_000}
    number = asked(address, "future", kill)["future"]["number"]
    with chromium() as browser, driven(browser, address, 1280, 720) as page:
        page.page.click(".future >> text=+ kill b1 at 14.001 s")
        page.settle()
        why = "no effect, b1 was already down"
        assert f"kill b1: {why}" in page.text(".future[aria-pressed=true]")
        assert page.page.locator(f".step-row >> text={why}").count() == 1
        assert page.page.locator(".step-mark.needless title").all_text_contents() == [
            f"kill b1, 14.001 s ({why}): drag it to another time"
        ]
    asked(address, "delete", {"number": number})


@pytest.mark.soak
@needs_chromium
def test_other_times_are_tried_whatever_is_done_meanwhile(tmp_path: Path) -> None:
    file = tmp_path / "short.yaml"
    file.write_text(SHORT, encoding="utf-8")
    with playing(str(file)) as found, chromium() as browser, driven(browser, found, 1280, 720) as page:
        row = page.page.locator(".step-row")
        row.get_by_text("Try other times").click()
        row.get_by_text("of 24 played").click()
        row.get_by_text("Try other times").wait_for()
        assert row.locator(".tried i").count() == 24
        assert row.locator(".tried i[class]").count() < 24, "it was stopped"
        row.get_by_text("Try other times").click()
        lasts = page.page.get_by_label("How long it lasts: pause b2")
        lasts.fill("3")
        page.page.fill(GO_TO, "5")
        page.page.press(GO_TO, "Enter")
        page.page.wait_for_selector(".future[aria-pressed=true] >> text=lasts 3s")
        page.page.click(".future >> text=as written")
        row.locator(".tried i[class] >> nth=23").wait_for(state="attached")
        row.get_by_text("Try other times").wait_for()


@pytest.mark.soak
@needs_chromium
def test_what_makes_no_difference_is_grey_and_says_why() -> None:
    with playing() as found, chromium() as browser, driven(browser, found, 1280, 720) as page:
        page.page.click(".stage [data-target='t-0']")
        page.page.wait_for_selector("dialog.breaking[open]")
        elect = "dialog.breaking li:has-text('Elect as the leader (b1)')"
        assert page.text(f"{elect} .muted").strip() == "b1 leads t-0 already."
        assert page.page.is_disabled(f"{elect} button")
        page.page.select_option("dialog.breaking select", "p1")
        page.page.click("dialog.breaking button >> text='Cut the link (b1)'")
        page.page.wait_for_selector(".future[aria-pressed=true] >> text=cut b1 from p1")
        page.press("b")
        page.page.wait_for_selector("dialog.breaking[open]")
        cut = "dialog.breaking li:has-text('Cut the link (b1)')"
        assert page.text(f"{cut} .muted").strip() == "Nothing passes between b1 and p1 now."


def test_a_bug_while_a_future_is_played_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    play = Playing(load_file(find_scenario("acks1-leader-kill")).scenario)
    kill = json.dumps({"parent": 0, "words": ["kill", "b2"], "now_us": 9_000_000}).encode()

    def breaks(*_: object, **__: object) -> None:
        raise ValueError("an impossible state")

    with monkeypatch.context() as patched:
        patched.setattr(playing_module, "run_scenario", breaks)
        answer: Any = trio.run(play.answered, "future", kill)
    assert answer["error"].startswith(
        "A bug in Highwater: this future cannot be played. ValueError: an impossible state."
    )
    answer = trio.run(play.answered, "future", kill)
    assert answer["future"]["name"] == "+ kill b2 at 9.001 s"


@pytest.fixture(scope="module")
def shared() -> Iterator[list[str]]:
    """The address of who plays, and that of who watches."""
    with addresses("acks1-leader-kill", "--bind", "127.0.0.1") as found:
        yield found


@pytest.mark.soak
def test_who_watches_changes_nothing(shared: list[str]) -> None:
    leads, watches = shared
    kill = json.dumps({"parent": 0, "words": ["kill", "b2"], "now_us": 1}).encode()
    for what in ("future", "verdict", "delete", "restore", "moment"):
        assert post(watches, what, kill)[0] == 403
    assert "error" not in asked(leads, "verdict", {"parent": 0, "remove": 0})
    assert "a valid moment" in asked(leads, "moment", {"future": 0})["error"]


@pytest.mark.soak
@needs_chromium
def test_viewers_see_the_moment_and_the_futures_of_who_plays(shared: list[str]) -> None:
    leads, watches = shared
    clock = ".clock >> text="
    with (
        chromium() as browser,
        driven(browser, leads, 1280, 720) as teacher,
        driven(browser, watches, 1280, 720) as early,
    ):
        assert early.page.locator("button >> text=Break it").count() == 0
        early.press("b")
        assert early.page.locator("dialog.breaking[open]").count() == 0
        teacher.page.evaluate("location.hash = '#t=9.000&e=-1&r=0&p=0'")
        early.page.wait_for_selector(clock + "9.000 s")
        teacher.page.click("g.lane.broker[data-node=b2] .badge-name")
        teacher.page.click("dialog.breaking button >> text=/^Kill$/")
        named = ".future[aria-pressed=true] >> text=kill b2 at 9.001 s"
        early.page.wait_for_selector(named)
        early.page.wait_for_selector("svg.stage[aria-label*='b2 is down']", state="attached")
        with driven(browser, watches, 420, 800) as late:
            late.page.wait_for_selector(named)
            teacher.press("c")
            late.page.wait_for_selector(".seat >> nth=1")
            assert late.page.locator(".seat header button").all_inner_texts() == [
                "without kill b2 at 9.001 s", "kill b2 at 9.001 s",
            ]  # fmt: skip
            assert late.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        teacher.page.click("text=Delete this future")
        early.page.wait_for_selector(".future[aria-pressed=true] >> text=as written")
        assert early.page.locator(".future").count() == 1


@pytest.mark.soak
def test_a_place_where_nothing_can_listen_is_said() -> None:
    command = [sys.executable, "-m", "scenarios.cli", "play", "acks1-leader-kill", "--bind"]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for where, why in (
            ("198.51.100.1", "--bind cannot listen on 198.51.100.1: Cannot assign requested address"),
            (f"127.0.0.1:{taken.getsockname()[1]}", "fix: choose another port"),
            ("a:b", "--bind takes an address"),
        ):
            done = subprocess.run([*command, where], capture_output=True, text=True, timeout=100)
            assert done.returncode == 2 and why in done.stderr


def test_everywhere_has_an_address_of_each_interface() -> None:
    if not (tool := shutil.which("ip")):
        pytest.skip("no `ip`")
    listed = json.loads(subprocess.check_output([tool, "-json", "-4", "address", "show", "up"]))
    own = {entry["addr_info"][0]["local"] for entry in listed if entry.get("addr_info")} - {"127.0.0.1"}
    door, listener = open_shared_door("0.0.0.0", 0, {})
    listener.close()
    expected = {f"http://{address}:{door.port}/x/" for address in own or ["127.0.0.1"]}
    assert expected <= set(door.addresses_with("x")) and "127.0.0.1" in door.names


@pytest.mark.soak
@needs_chromium
@pytest.mark.parametrize(("width", "height"), AXE_MODES)
def test_nothing_sticks_out(address: str, width: int, height: int) -> None:
    with chromium() as browser, driven(browser, address, width, height) as page:
        page.press("b")
        page.page.wait_for_selector("dialog.breaking[open]")
        assert page.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.soak
@needs_chromium
@pytest.mark.skipif(axe_core() is None, reason="axe-core is not installed here (npm install axe-core, NODE_PATH)")
@pytest.mark.parametrize(("width", "height"), AXE_MODES)
@pytest.mark.parametrize("shows", ["page", "menu", "what is watched"])
def test_axe_finds_nothing(shared: list[str], shows: str, width: int, height: int) -> None:
    axe, opens_menu = axe_core(), shows == "menu"
    assert axe is not None
    with chromium() as browser, driven(browser, shared[shows == "what is watched"], width, height) as page:
        page.page.evaluate(axe.read_text(encoding="utf-8"))
        for _ in range(3):
            if opens_menu:
                page.press("b")
                page.page.wait_for_selector("dialog.breaking[open]")
            found = "axe.run().then((found) => found.violations.map((one) => [one.id, one.nodes[0].html]))"
            assert page.page.evaluate(found) == []
            if opens_menu:
                page.press("Escape")
            page.press("t")


@pytest.mark.soak
def test_a_scenario_whose_name_begins_like_last_is_no_run() -> None:
    with playing("last-replica-standing") as address:
        assert "error" not in asked(address, "verdict", {"parent": 0, "remove": 0})


@pytest.mark.soak
def test_it_plays_what_was_kept(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "scenarios.cli", "run", "acks1-leader-kill", "--out", str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True)
    with playing(str(tmp_path / "0001-acks1-leader-kill")) as address:
        made = asked(address, "future", {"parent": 0, "setting": "workloads.p1.config.acks=all"})
    # Nothing is lost, and with acks=all the producer is idempotent by default, so that no retry comes out of order.
    assert made["run"]["head"]["verdict"] == []

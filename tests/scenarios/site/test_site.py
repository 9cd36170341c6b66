"""The site: its pages, links and search, and what a second build does. Four scenarios; the soak has all of them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urldefrag, urljoin

import pytest
from click.testing import CliRunner
from playwright.sync_api import Browser

from scenarios.cli.main import cli
from scenarios.cli.site import build as building
from scenarios.cli.site.documents import Renderer, agreements
from scenarios.cli.site.played import of_file
from scenarios.cli.site.search_index import scenario_hit
from scenarios.lab.exercise import exercises
from scenarios.language.parse import catalogue
from scenarios.language.parse.loading import load_file
from tests.driven import Driven, axe_core, chromium, driven

FILES = ("acks1-leader-kill", "min-isr-1-trap", "txn-hanging", "unclean-election")
FRONT_BYTES_MAX, SCENARIO_BYTES_MAX = 200_000, 500_000


class Page(HTMLParser):
    """Links, anchors and what a page loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if found.get("id"):
            self.anchors.append(str(found["id"]))
        if tag == "a" and found.get("href"):
            self.links.append(str(found["href"]))
        if tag in ("script", "iframe", "img"):
            self.loaded += [source for source in (found.get("src"), found.get("data-src")) if source]
        if tag == "link" and found.get("href"):
            self.loaded.append(str(found["href"]))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("library")
    for name in FILES:
        shutil.copy(catalogue.bundled()[name], folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(catalogue, "LIBRARY", folder)
        yield folder


@pytest.fixture(scope="module")
def site(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    built = building.build(out, processes=1, address="https://example.org/kafka/")
    assert built.played == len(FILES)
    return out


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


def wrong_links(out: Path) -> list[tuple[str, str]]:
    """Links and loads of pages of the site that lead nowhere or outside; runs are pages of another program."""
    texts = {path.relative_to(out).as_posix(): path.read_text(encoding="utf-8") for path in out.rglob("*.html")}
    pages = {path: Page(text) for path, text in texts.items() if not path.startswith("runs/")}
    wrong = []
    for path, page in pages.items():
        assert len(page.anchors) == len(set(page.anchors)), path
        for link in page.links + page.loaded:
            if (link.startswith(("https://", "http://")) and link in page.links) or link == "data:,":
                continue
            target, anchor = urldefrag(urljoin(f"https://site/{path}", link))
            there = target.removeprefix("https://site/")
            found = (out / there).is_file() and (not anchor or there not in pages or anchor in pages[there].anchors)
            if not found:
                wrong.append((path, link))
    return wrong


@pytest.mark.soak
def test_every_link_and_anchor_leads_somewhere_and_nothing_is_loaded_from_outside(site: Path) -> None:
    assert wrong_links(site) == []


@pytest.mark.soak
def test_pages_are_small(site: Path) -> None:
    loaded = sum((site / name).stat().st_size for name in ("index.html", "site.css", "site.js"))
    assert loaded < FRONT_BYTES_MAX
    for name in FILES:
        assert (site / "scenarios" / f"{name}.html").stat().st_size < SCENARIO_BYTES_MAX


@pytest.mark.soak
def test_a_scenario_tells_what_happened_why_and_what_would_have_saved_it(site: Path) -> None:
    text = (site / "scenarios/acks1-leader-kill.html").read_text(encoding="utf-8")
    for part in (
        "Why r10 was lost",
        "10.302 s",
        "because acks=1 does not wait for followers",
        '<code>acks=all</code></th><td class="good">yes</td>',
        "<td>LOST 5</td>",
        "broker.session.timeout.ms=9000",
        '<th scope="row">0.8, 3.9, 4.4</th><td class="bad">acked, but lost</td>',
        '<a href="#saved">What would have saved it</a>',
        '<a href="../lessons/1-what-an-ack-promises.html">1. What an ack promises</a>',
        "symptoms/acked-and-lost.html",
        '<td>4.1.0</td><td class="good">same</td>',
        "highwater compare acks1-leader-kill",
        "https://jack-vanlightly.com/",
    ):
        assert part in text, part
    head = text.partition("The run</h2>")[0]
    assert "pill" not in head, "the verdict comes after the predictions"


@pytest.mark.soak
def test_symptoms_are_what_the_runs_have_shown(site: Path) -> None:
    unclean = (site / "symptoms/unclean-election.html").read_text(encoding="utf-8")
    assert "scenarios/unclean-election.html" in unclean and "acks1-leader-kill" not in unclean
    hanging = (site / "symptoms/hanging-transaction.html").read_text(encoding="utf-8")
    assert "in the runs as written, aborted, kafka-0-11" in hanging, "what is verified does not hang"


@pytest.mark.soak
def test_a_second_build_makes_only_what_has_changed(site: Path, library: Path, tmp_path: Path) -> None:
    out = tmp_path / "copy"
    shutil.copytree(site, out)
    again = building.build(out, processes=1, address="https://example.org/kafka/")
    assert (again.played, again.written) == (0, 0)
    file = library / "min-isr-1-trap.yaml"
    before = file.read_text(encoding="utf-8")
    try:
        file.write_text(before.replace("title: ", "title: Changed. ", 1), encoding="utf-8")
        changed = building.build(out, processes=1, address="https://example.org/kafka/")
        assert changed.played == 1
        assert "Changed. " in (out / "scenarios/min-isr-1-trap.html").read_text(encoding="utf-8")
        file.unlink()
        building.build(out, processes=1)
        assert not [path for path in out.rglob("*") if "min-isr-1-trap" in path.name]
    finally:
        file.write_text(before, encoding="utf-8")


@pytest.mark.soak
def test_a_page_that_is_gone_is_made_again(site: Path, tmp_path: Path) -> None:
    out = tmp_path / "copy"
    shutil.copytree(site, out)
    (out / "runs/unclean-election.html").unlink()
    (out / "data/txn-hanging.json").write_text("{", encoding="utf-8")
    assert building.build(out, processes=1).played == 2


@pytest.mark.soak
def test_exercises_and_handout_are_there_to_download(site: Path) -> None:
    page = (site / "lessons/labs.html").read_text(encoding="utf-8")
    for name in exercises():
        assert f'<a download href="../labs/{name}.yaml">' in page and (site / f"labs/{name}.yaml").is_file()
    assert "highwater lab check one-setting one-setting.yaml" in page and "../labs/handout.html" in page


@pytest.mark.soak
def test_what_no_build_makes_any_more_is_removed(site: Path, tmp_path: Path) -> None:
    out = tmp_path / "copy"
    shutil.copytree(site, out)
    (out / "labs/of-last-year.yaml").write_text("", encoding="utf-8")
    building.build(out, processes=1)
    assert not (out / "labs/of-last-year.yaml").exists() and (out / "docs/report.png").exists()


@pytest.mark.soak
def test_the_sitemap_has_every_page(site: Path) -> None:
    text = (site / "sitemap.xml").read_text(encoding="utf-8")
    assert "<loc>https://example.org/kafka/scenarios/txn-hanging.html</loc>" in text
    own = [path for path in site.rglob("*.html") if path.parent.name not in ("runs", "labs")]
    assert text.count("<loc>") == len(own)


def test_documents_link_rules_and_scenarios_and_what_is_not_on_the_site_is_text() -> None:
    renderer = Renderer(["acks1-leader-kill"])
    text = "# A\n\n## R9 b\n\nSee R16, `acks1-leader-kill` and [code](../x.py), [rules](../replica/RULES.md#r2-what).\n"
    text += "\n`highwater run acks1-leader-kill --predict` `highwater lab start predict` `acks1-leader-kill:acks-0`\n"
    html = renderer.render(text, "scenarios/LANGUAGE.md", "docs/language.html").html
    assert '<h2 id="r9">' in html and '<a href="rules.html#r16">R16</a>' in html
    assert '<a href="../scenarios/acks1-leader-kill.html"><code>acks1-leader-kill</code></a>' in html
    assert "and code, " in html
    assert html.count('<a href="../scenarios/acks1-leader-kill.html">') == 3


def test_a_sentence_is_escaped() -> None:
    html = Renderer([]).sentence("a <script>alert(1)</script> of __consumer_offsets-0 by `acks`, R9", "index.html")
    assert "<script>" not in html and "__consumer_offsets-0 by <code>acks</code>" in html and "#r9" in html


def test_the_sheet_is_read_by_scenario() -> None:
    sheet = (
        "4.1.0, the same in three plays or more: `a`, `b:v`.\n\nKafka 4.1.0, the others:\n\n"
        "| scenario | verdict | plays | what differs | simulated | Kafka |\n|---|---|---|---|---|---|\n"
        "| `a:w` | noise | 3 | t-0, leader | b1 | b2 |\n|  |  |  | records | r1 | r2 |\n"
    )
    found = agreements(sheet)
    assert [(one.run, one.standing, one.differs) for one in found["a"]] == [
        ("a", "same", ()),
        ("a:w", "noise", ("t-0, leader", "records")),
    ]
    assert [one.run for one in found["b"]] == ["b:v"]


@contextmanager
def opened(browser: Browser, site: Path, name: str, ready: str = "main", **options: Any) -> Iterator[Driven]:
    with driven(browser, (site / name).as_uri(), ready=ready, own=site.as_uri(), **options) as shown:
        yield shown


def searched(browser: Browser, site: Path, query: str) -> list[str]:
    with opened(browser, site, "index.html", "#q") as shown:
        shown.page.fill("#q", query)
        shown.page.wait_for_selector("#hits a")
        found: list[str] = shown.page.eval_on_selector_all("#hits a", "all => all.map(one => one.getAttribute('href'))")
        return found


QUESTIONS = {
    "high watermark stuck": "symptoms/high-watermark-stands.html",
    "unclean leader": "symptoms/unclean-election.html",
    "hanging transaction": "symptoms/hanging-transaction.html",
    "consumer offset reset after failover": "symptoms/offset-out-of-range.html",
    "NOT_ENOUGH_REPLICAS": "symptoms/not-enough-replicas.html",
    "NotEnoughReplicasException": "symptoms/not-enough-replicas.html",
    "LogTruncationException": "symptoms/log-diverged.html",
    "acks=1 leader killed": "scenarios/acks1-leader-kill.html",
    "ISR flapping": "symptoms/isr-flaps.html",
    "duplicate messages after a retry": "symptoms/duplicates.html",
    "transaction marker is missing, KAFKA-14402": "scenarios/txn-hanging.html",
    "consumer group stuck rebalancing": "symptoms/group-does-not-read.html",
    "the disk is full": "symptoms/disk.html",
    "ActiveControllerCount is 0": "symptoms/controller-gone.html",
    "exercises to download": "lessons/labs.html",
    "unclaen election": "symptoms/unclean-election.html",
    "Shrinking ISR from 1,2,3 to 1": "symptoms/isr-flaps.html",
    "Resetting offset for partition": "symptoms/offset-out-of-range.html",
    "errors.NotLeaderOrFollowerException: For requests intended only for the leader": "symptoms/stale-metadata.html",
    "Got error produce response on orders-0, retrying. Error: NOT_ENOUGH_REPLICAS": "symptoms/not-enough-replicas.html",
    "CommitFailedException: Offset commit cannot be completed since": "symptoms/fenced-member.html",
    "Expiring 5 record(s) for orders-0:120000 ms has passed since batch creation": "symptoms/request-timeout.html",
    "which broker holds back the high watermark": "symptoms/high-watermark-stands.html",
    "messages disappear after restart": "symptoms/acked-and-lost.html",
    "lost messages": "symptoms/acked-and-lost.html",
    "same message twice": "symptoms/duplicates.html",
    "split brain": "symptoms/broker-fenced.html",
    "leader election loop": "symptoms/broker-fenced.html",
    "zombie": "symptoms/producer-fenced.html",
    "consumer stuck": "symptoms/group-does-not-read.html",
    "lag never goes down": "symptoms/group-does-not-read.html",
    "not enough replicas": "symptoms/not-enough-replicas.html",
}


@pytest.mark.soak
def test_a_chapter_shows_what_one_sees_when_it_is_asked_to(browser: Browser, site: Path) -> None:
    (page,) = (site / "lessons").glob("1-*.html")
    with opened(browser, site, page.relative_to(site).as_posix()) as shown:
        row = shown.page.locator(".lesson tbody tr").first
        answer, verdicts = row.locator("td").nth(2), row.locator("td").nth(3)
        assert not verdicts.is_visible() and row.locator("button").is_visible()
        row.locator("button").click()
        assert answer.is_visible() and verdicts.is_visible() and not row.locator("button").count()


def test_a_files_own_setting_is_its_subject_and_those_of_its_variants_are_not() -> None:
    found = load_file(catalogue.bundled()["acks1-leader-kill"])
    scenario = {**of_file(found), "runs": [{"symptoms": [], "title": "", "errors": []}]}
    _, _, _, _, subject, words, _ = scenario_hit(scenario, {}).as_json()
    assert "acks=1" in subject.split() and "acks=all" not in subject.split()
    assert {"acks=1", "acks=all", "acks=0"} <= set(words.split())


@pytest.mark.soak
@pytest.mark.parametrize(("query", "first"), QUESTIONS.items())
def test_a_question_leads_to_its_page(browser: Browser, site: Path, query: str, first: str) -> None:
    assert searched(browser, site, query)[0] == first


@pytest.mark.soak
def test_a_value_of_a_setting_and_tickets_are_found_and_nonsense_is_not(browser: Browser, site: Path) -> None:
    assert "scenarios/min-isr-1-trap.html" in searched(browser, site, "min.insync.replicas 1 lost data")[:2]
    assert any(page.startswith("docs/rules.html#") for page in searched(browser, site, "KAFKA-17754"))
    assert searched(browser, site, "xyzzy") == ["symptoms/index.html"]
    assert searched(browser, site, "unclean xyzzy") == searched(browser, site, "unclean")


@pytest.mark.soak
@pytest.mark.parametrize("width", [1280, 420])
def test_pages_fit_the_screen_and_say_nothing_on_the_console(browser: Browser, site: Path, width: int) -> None:
    for name in ("index.html", "scenarios/acks1-leader-kill.html", "docs/rules.html", "symptoms/index.html"):
        with opened(browser, site, name, "main", width=width) as shown:
            assert shown.page.evaluate("document.documentElement.scrollWidth") <= width, name


@pytest.mark.soak
def test_without_javascript_and_in_print_everything_but_the_run_is_there(browser: Browser, site: Path) -> None:
    page = "scenarios/acks1-leader-kill.html"
    with browser.new_context(java_script_enabled=False) as context:  # `opened` waits for what a script has drawn.
        plain = context.new_page()
        plain.goto((site / page).as_uri())
        for text in ("Why r10 was lost", "What would have saved it", "On a page of its own"):
            assert plain.get_by_text(text).first.is_visible()
        for hidden in (".search", ".player", "button.copy"):
            assert not plain.locator(hidden).first.is_visible()
    with opened(browser, site, page, color_scheme="dark") as shown:
        shown.page.emulate_media(media="print")
        assert shown.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert not shown.page.locator("header nav").is_visible() and shown.page.locator("table").first.is_visible()


@pytest.mark.soak
def test_a_run_opens_in_its_page(browser: Browser, site: Path) -> None:
    with opened(browser, site, "scenarios/unclean-election.html", "main") as shown:
        assert shown.page.locator("iframe").count() == 1 and shown.page.locator("iframe[src]").count() == 0
        shown.page.click(".player summary")
        shown.page.frame_locator("iframe").locator("svg.stage").first.wait_for()


@pytest.mark.soak
def test_a_chapter_that_is_done_is_remembered(browser: Browser, site: Path) -> None:
    with opened(browser, site, "lessons/1-what-an-ack-promises.html", "[data-done]") as shown:
        shown.page.check("[data-done]")
        shown.page.goto((site / "lessons/index.html").as_uri())
        assert "is-done" in str(shown.page.get_attribute('[data-chapter="1-what-an-ack-promises"]', "class"))


@pytest.mark.soak
@pytest.mark.skipif(axe_core() is None, reason="axe-core is not installed here (npm install axe-core, NODE_PATH)")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.night)], ids=["of-each-kind", "all"])
def test_axe_finds_nothing_on_the_site(browser: Browser, site: Path, every: bool, scheme: Any) -> None:
    axe = axe_core()
    assert axe is not None
    left_out = {"runs", "labs"} if scheme == "dark" else {"runs"}  # A handout is printed on white.
    pages = [path for path in sorted(site.rglob("*.html")) if path.parent.name not in left_out]
    kinds = {path.parent: path for path in pages}
    for path in pages if every else kinds.values():
        with opened(browser, site, path.relative_to(site).as_posix(), color_scheme=scheme) as shown:
            shown.page.evaluate(axe.read_text(encoding="utf-8"))
            run = (
                "axe.run({preload: false}).then((found) => found.violations.map((one) => [one.id, one.nodes[0].html]))"
            )
            assert shown.page.evaluate(run) == [], path.name


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_the_site_of_the_whole_catalogue(tmp_path: Path, browser: Browser) -> None:
    result = CliRunner().invoke(cli, ["site", "--out", str(tmp_path / "site")])
    assert result.exit_code == 0, result.output
    assert wrong_links(tmp_path / "site") == []
    assert (tmp_path / "site/index.html").stat().st_size < FRONT_BYTES_MAX
    for page in sorted((tmp_path / "site/scenarios").glob("*.html")):
        assert page.stat().st_size < SCENARIO_BYTES_MAX, page.name
    for page in sorted((tmp_path / "site/scenarios").glob("*.html"))[::7]:
        with opened(browser, tmp_path / "site", f"scenarios/{page.name}", width=420) as shown:
            assert shown.page.evaluate("document.documentElement.scrollWidth") <= 420, page.name
    for query, first in QUESTIONS.items():
        assert searched(browser, tmp_path / "site", query)[0] == first, query
    assert (
        "scenarios/min-isr-1-trap.html" in searched(browser, tmp_path / "site", "min.insync.replicas 1 lost data")[:5]
    )


def test_a_file_where_the_folder_should_be_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("x", encoding="utf-8")
    result = CliRunner().invoke(cli, ["site", "--out", str(tmp_path / "there")])
    assert result.exit_code == 2 and "Traceback" not in result.output

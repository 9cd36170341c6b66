"""Build the site: play scenarios that have changed, render every page, and write the pages that differ."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
import markupsafe

from scenarios.cli.catalogue import FIRST_THREE
from scenarios.cli.site.documents import (
    DOCUMENTS,
    LESSONS,
    ROOT,
    Document,
    DocumentPart,
    Renderer,
    SheetEntry,
    agreements,
    parts_of,
    picture,
    relative,
    slug,
)
from scenarios.cli.site.played import PlayJob, kept_document, key_of, play
from scenarios.cli.site.search_index import CODE, Hit, index_of, scenario_hit
from scenarios.cli.site.symptoms import SYMPTOMS, Symptom
from scenarios.lab.exercise import exercises
from scenarios.language.parse import catalogue
from scenarios.language.parse.loading import load_file
from scenarios.language.rules_table import rule_rows
from scenarios.process.pool import in_order
from scenarios.process.work_folders import write_whole
from scenarios.terminal.progress import ProgressLine

STATIC = ("site.css", "site.js")
PICTURES = ("spark_reports/report.png",)
"""Pictures in the documents, as paths from the root of the project."""
LABS = "lessons/labs.html"
READER = "Reader"
"""Name of the student for whom the exercises of the site are drawn. Other students get other exercises."""
DESCRIPTION = "Kafka's replication failures, each as a run that you can step through in the browser"
WORDS_OF_A_PART = 40
"""Number of words from the beginning of each part of a document that go into the search index."""
NOTHING = frozenset({"0", "-", "ok 0", "not asked"})
"""Figures of a run that mean that nothing happened. A row with only such figures is not shown."""
INDEXED_LEVELS = (2, 3)
"""Levels of headings whose parts are in the search index."""


@dataclass(frozen=True, slots=True)
class Built:
    """The result of a build: the number of pages, of scenarios that were played, and of files that changed."""

    pages: int
    played: int
    written: int


@dataclass(slots=True)
class Site:
    """The site during one build.

    Attributes:
        out: the folder of the site.
        address: URL of the future site, for the sitemap; empty if it is unknown.
        scenarios: documents of the played scenarios, by id.
        agreement: comparisons with real Kafka, by id of the scenario.
        hits: entries of the search index so far.
        pages: paths of the pages so far.
        files: paths of all files so far.
        written: number of files that were new or changed.
    """

    out: Path
    address: str
    scenarios: Mapping[str, dict[str, Any]]
    agreement: Mapping[str, Sequence[SheetEntry]]
    hits: list[Hit] = field(default_factory=list)
    pages: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    written: int = 0

    def put(self, path: str, content: str | bytes) -> None:
        """Write a file, unless it already exists with the same content."""
        file = self.out / path
        data = content.encode() if isinstance(content, str) else content
        if not (file.is_file() and file.read_bytes() == data):
            write_whole(file, data)
            self.written += 1
        self.files.append(path)


def build(out: Path, *, processes: int, address: str = "", with_agreement: bool = True) -> Built:
    """Build the site in a folder, reusing the results of an earlier build from the same files.

    Raises:
        OSError: if a file cannot be written.
    """
    jobs = [PlayJob(str(path), str(out), key_of(path)) for path in catalogue.bundled().values()]
    documents, played = _played(jobs, processes)
    scenarios = {document["id"]: document for document in documents}
    sheet = next(document for document in DOCUMENTS if document.page == "docs/agreement.html")
    site = Site(out, address, scenarios, agreements(sheet.text()) if with_agreement else {})
    _Pages(site).write()
    _remove_stale(site)
    return Built(len(site.pages), played, site.written)


def _played(jobs: Sequence[PlayJob], processes: int) -> tuple[list[dict[str, Any]], int]:
    """Return the document about each scenario, in the order of `jobs`, and the number of scenarios that were played."""
    kept = {job: kept_document(job) for job in jobs}
    due = [job for job, document in kept.items() if document is None]
    with ProgressLine("playing") as progress:
        for number, (job, document) in enumerate(zip(due, in_order(play, due, processes), strict=True), 1):
            kept[job] = document
            progress.show(number / len(due), f"{number} of {len(due)} scenarios")
    return [document for document in kept.values() if document is not None], len(due)


def _remove_stale(site: Site) -> None:
    """Remove files that an earlier build made and this build did not."""
    runs = {page["path"] for scenario in site.scenarios.values() for page in scenario["pages"]}
    known = {*runs, *site.files, *(f"data/{name}.json" for name in site.scenarios)}
    for folder in ("runs", "scenarios", "symptoms", "lessons", "labs", "docs", "data"):
        for file in sorted((site.out / folder).glob("*")):
            if file.is_file() and f"{folder}/{file.name}" not in known:
                file.unlink()


class _Pages:
    """The renderer of all pages of a site."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.templates = jinja2.Environment(
            loader=jinja2.PackageLoader("scenarios.cli.site"),
            autoescape=True,
            trim_blocks=True,
            lstrip_blocks=True,
            undefined=jinja2.StrictUndefined,
        )
        self.chapters = list(_chapters())
        anchors = {(LESSONS.path, chapter.anchor): chapter.page for chapter in self.chapters}
        self.renderer = Renderer(list(site.scenarios), anchors)
        self.symptoms = [(symptom, _shown(symptom, site.scenarios)) for symptom in SYMPTOMS]

    def write(self) -> None:
        for name in STATIC:
            self.site.put(name, files("scenarios.cli.site").joinpath("static", name).read_bytes())
        for path in PICTURES:
            self.site.put(picture(path), (ROOT / path).read_bytes())
        self._scenarios()
        self._symptoms()
        self._documents()
        self._lessons()
        self._labs()
        self._page("scenarios/index.html", "catalogue", "All scenarios", DESCRIPTION, sections=self._sections())
        first = [self.site.scenarios[name] for name in FIRST_THREE if name in self.site.scenarios]
        self._page("index.html", "front", "Highwater", DESCRIPTION, first=first, symptoms=self.symptoms)
        self.site.put("search.js", index_of(self.site.hits))
        if self.site.address:
            self._sitemap()

    def _page(self, page: str, template: str, title: str, description: str, **values: Any) -> None:
        text = self.templates.get_template(f"{template}.html.j2").render(
            page=page,
            title=title,
            description=description,
            to=partial(relative, page),
            say=partial(self._say, page),
            **values,
        )
        self.site.put(page, text)
        self.site.pages.append(page)

    def _say(self, page: str, text: str) -> str:
        """Return a sentence as HTML, with links to the rules and scenarios that it cites."""
        return markupsafe.Markup(self.renderer.sentence(text, page))  # noqa: S704  # markdown-it escapes it

    # ------------------------------------------------------------------------------------------------------ scenarios

    def _scenarios(self) -> None:
        found = [load_file(path) for path in catalogue.bundled().values()]
        rules = rule_rows(found)
        titles = {symptom.id: symptom for symptom in SYMPTOMS}
        lessons = {chapter.number: chapter for chapter in self.chapters if chapter.number}
        # Where two match a search equally, it shows the one of the earlier lesson first.
        by_lesson = sorted(self.site.scenarios.items(), key=lambda item: item[1]["lesson"] or len(lessons) + 1)
        for name, scenario in by_lesson:
            shown = dict.fromkeys(symptom for run in scenario["runs"] for symptom in run["symptoms"])
            symptoms = [titles[symptom] for symptom in shown]
            self._page(
                f"scenarios/{name}.html",
                "scenario",
                scenario["title"],
                scenario["question"] or scenario["title"],
                scenario=scenario,
                symptoms=symptoms,
                lesson=lessons.get(scenario["lesson"]),
                agreement=self.site.agreement.get(name, ()),
                rules=[(row, contrast) for row in rules for contrast in row.contrasts if contrast.scenario == name],
                figures=_figures(scenario["runs"]),
                waits=_waits(scenario["runs"]),
            )
            self.site.hits.append(scenario_hit(scenario, titles))

    def _sections(self) -> list[tuple[str, list[dict[str, Any]]]]:
        return [
            (section.title, [self.site.scenarios[file.id] for file in section.files])
            for section in catalogue.sections()
        ]

    # ------------------------------------------------------------------------------------------------------- symptoms

    def _symptoms(self) -> None:
        for symptom, shown in self.symptoms:
            page = f"symptoms/{symptom.id}.html"
            self._page(page, "symptom", symptom.title, symptom.text, symptom=symptom, shown=shown)
            self.site.hits.append(Hit(page, "symptom", symptom.title, symptom.text, subject=[symptom.words]))
        self._page("symptoms/index.html", "symptoms", "What you see", DESCRIPTION, symptoms=self.symptoms)

    # ------------------------------------------------------------------------------------------------------ documents

    def _documents(self) -> None:
        self._page("docs/index.html", "documents", "Manuals", DESCRIPTION, documents=DOCUMENTS)
        for document in DOCUMENTS:
            rendered = self.renderer.render(document.text(), document.path, document.page)
            contents = [part for part in rendered.parts if part.level == 2]
            head, end, html = rendered.html.partition("</h1>")
            parts = {"head": head + end, "html": html, "contents": contents}
            self._page(document.page, "document", document.title, document.about, **parts)
            self._index_parts(document, rendered.parts)

    def _index_parts(self, document: Document, parts: Sequence[DocumentPart]) -> None:
        """Add each part of a document to the search index, by its first words and all KIPs, tickets and error codes."""
        self.site.hits.append(Hit(document.page, "document", document.title, document.about))
        for part in parts:
            if part.level in INDEXED_LEVELS:
                first = re.sub(r"[`*|#\[\]()<>-]+", " ", part.text).split()[:WORDS_OF_A_PART]
                page, title = f"{document.page}#{part.anchor}", f"{document.title}: {part.heading}"
                self.site.hits.append(Hit(page, "document", title, "", words=CODE.findall(part.text), rest=first))

    def _lessons(self) -> None:
        preface = parts_of(LESSONS.text())[0][1]
        rendered = self.renderer.render(preface, LESSONS.path, LESSONS.page)
        self._page(LESSONS.page, "lessons", "Lessons", LESSONS.about, html=rendered.html, chapters=self.chapters)
        for number, chapter in enumerate(self.chapters):
            html = self.renderer.render(chapter.text, LESSONS.path, chapter.page, lifted=1).html
            self._page(
                chapter.page,
                "lesson",
                chapter.title,
                f"{chapter.title}: a chapter of the course in Kafka's replication",
                chapter=chapter,
                html=html,
                before=self.chapters[number - 1] if number else None,
                after=self.chapters[number + 1] if number + 1 < len(self.chapters) else None,
            )
            self.site.hits.append(Hit(chapter.page, "lesson", chapter.title, "", words=["lesson", "course"]))

    def _labs(self) -> None:
        """Write the handout, the files of the exercises, and the page that offers them."""
        self.site.put("labs/handout.html", files("scenarios.lab").joinpath("handout.html").read_bytes())
        found = [(exercise, exercise.files(READER)) for exercise in exercises().values()]
        for _, texts in found:
            for name, text in texts.items():
                self.site.put(f"labs/{name}", text)
        title = "Exercises and handout"
        about = "Six exercises to download, and a page to print: HW, LEO, ISR and acks"
        self._page(LABS, "labs", title, about, labs=found, reader=READER)
        words = ["lab", "download", "print", *(exercise.title for exercise, _ in found)]
        self.site.hits.append(Hit(LABS, "lesson", title, about, words=words))

    def _sitemap(self) -> None:
        base = self.site.address.rstrip("/")
        urls = "".join(f"<url><loc>{base}/{page}</loc></url>\n" for page in self.site.pages)
        namespace = "http://www.sitemaps.org/schemas/sitemap/0.9"
        text = f'<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="{namespace}">\n{urls}</urlset>\n'
        self.site.put("sitemap.xml", text)


@dataclass(frozen=True, slots=True)
class Chapter:
    """A chapter of scenarios/LESSONS.md, which becomes a page of the site.

    Attributes:
        text: the chapter as Markdown.
    """

    page: str
    anchor: str
    title: str
    text: str

    @property
    def number(self) -> int:
        """The number of the lesson, as scenarios refer to it; 0 for the chapter for teachers."""
        return int(self.title.partition(".")[0]) if self.title[0].isdigit() else 0


def _chapters() -> Iterator[Chapter]:
    taken: dict[str, int] = {}
    for heading, text in parts_of(LESSONS.text()):
        if heading:
            anchor = slug(heading, taken)
            yield Chapter(f"lessons/{anchor}.html", anchor, heading, text)


def _shown(symptom: Symptom, scenarios: Mapping[str, dict[str, Any]]) -> list[tuple[dict[str, Any], list[str]]]:
    """Return the scenarios that show a symptom, each with the names of the runs that show it, best examples first.

    Scenarios whose own run shows the symptom come before scenarios in which only variants do, then by `_share`.
    """
    found = [
        (scenario, [run["variant"] for run in scenario["runs"] if symptom.id in run["symptoms"]])
        for scenario in scenarios.values()
    ]
    showing = [(scenario, runs) for scenario, runs in found if runs]
    return sorted(
        showing, key=lambda item: (item[0]["runs"][0]["variant"] not in item[1], -_share(*item), item[0]["id"])
    )


def _share(scenario: Mapping[str, Any], runs: Sequence[str]) -> float:
    """Return how well a scenario suits a symptom: better with few other symptoms, and if not all runs show it."""
    first = scenario["runs"][0]["symptoms"]
    return (2 - len(runs) / len(scenario["runs"])) / max(len(first), 1)


def _figures(runs: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[str]]]:
    """Return rows of (label, one figure for each run), without rows in which nothing happened in any run."""
    names = dict.fromkeys(name for run in runs for name in run["figures"])
    rows = [(name, [run["figures"].get(name, "-") for run in runs]) for name in names]
    eras = ("rules of", [run["era"].removeprefix("kafka-") for run in runs])
    return [eras, *((name, row) for name, row in rows if not NOTHING.issuperset(row))]


def _waits(runs: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, str]]:
    """Return (run, cause, advice) for each cause of times without writes or reads, with the first run that had it."""
    found: dict[str, tuple[str, str, str]] = {}
    for run in runs:
        for wait in run["waits"]:
            if "do not show" not in wait["sentence"]:
                found.setdefault(wait["sentence"], (run["variant"], wait["sentence"], wait["advice"]))
    return list(found.values())

"""The documents of the project as pages: renders Markdown with anchors, and links to cited rules and scenarios."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[3]
CITED = re.compile(r"\b[RSL][0-9]{1,2}\b")
OF_SCENARIO = re.compile(r"(?:highwater [a-z]+ )?([a-z0-9-]+)(?::\S+| -.+)?")
"""A scenario's id, one of its variants, or a command about it with any options."""
RULES = "replica/RULES.md"


@dataclass(frozen=True, slots=True)
class Document:
    """One Markdown file of the project that becomes a page of the site.

    Attributes:
        path: path from the root of the project.
        page: path of the page from the root of the site.
        about: description of the page.
    """

    path: str
    page: str
    title: str
    about: str

    def text(self) -> str:
        return (ROOT / self.path).read_text(encoding="utf-8")


_ALL = (
    Document("README.md", "docs/about.html", "About", "What Highwater is, and how to install it"),
    Document(RULES, "docs/rules.html", "Rules", "Kafka's replication rules and the invariants, each with its source"),
    Document("scenarios/LANGUAGE.md", "docs/language.html", "Language", "Every key and verb of a scenario file"),
    Document("scenarios/cli/MANUAL.md", "docs/command.html", "Command", "Every command of `highwater`"),
    Document("scenarios/serve/MANUAL.md", "docs/serve.html", "Live clusters", "`highwater serve`, for real clients"),
    Document("spark_reports/MANUAL.md", "docs/reports.html", "Reports", "Reports, sweeps and searches with Spark"),
    Document("spark_reports/TABLES.md", "docs/tables.html", "Tables", "The tables that a report writes from a trace"),
    Document("cluster/FIDELITY.md", "docs/fidelity.html", "Fidelity", "What is simplified, or differs from Kafka"),
    Document(
        "scenarios/agree/SHEET.md", "docs/agreement.html", "Agreement", "Every scenario compared with Apache Kafka"
    ),
    Document(
        "scenarios/bench/RESULTS.md", "docs/measurements.html", "Measurements", "Highwater's speed, memory and limits"
    ),
)
DOCUMENTS = tuple(document for document in _ALL if (ROOT / document.path).is_file())
"""The documents that exist in this installation; an installed package has no README.md."""
LESSONS = Document("scenarios/LESSONS.md", "lessons/index.html", "Lessons", "A course in Kafka's replication")


@dataclass(frozen=True, slots=True)
class DocumentPart:
    """The text below one heading of a document, up to the next heading of any level."""

    level: int
    anchor: str
    heading: str
    text: str


@dataclass(frozen=True, slots=True)
class Rendered:
    """A document, or a part of one, as HTML."""

    html: str
    parts: tuple[DocumentPart, ...]


def slug(text: str, taken: dict[str, int]) -> str:
    """Return the anchor that GitHub gives a heading.

    Args:
        taken: number of earlier headings by their anchor; updated by this call.
    """
    anchor = re.sub(r"[^\w\- ]", "", text.lower()).strip().replace(" ", "-")
    count = taken.get(anchor, 0)
    taken[anchor] = count + 1
    return f"{anchor}-{count}" if count else anchor


class Renderer:
    """A renderer of the project's Markdown as HTML.

    Args:
        scenarios: ids of scenarios that have a page.
        anchors: page of each heading that has its own page, by (path of the document, anchor).
    """

    def __init__(self, scenarios: Sequence[str], anchors: Mapping[tuple[str, str], str] | None = None) -> None:
        self._scenarios = frozenset(scenarios)
        self._anchors = anchors or {}
        self._pages = {document.path: document.page for document in (*DOCUMENTS, LESSONS)}
        self._markdown = MarkdownIt("commonmark").enable("table")
        self._sentences = MarkdownIt("zero").enable("backticks")
        """Parser for sentences with code spans and no other Markdown, because of names such as __consumer_offsets."""

    def render(self, text: str, path: str, page: str, *, lifted: int = 0) -> Rendered:
        """Render a document, or a part of one.

        Args:
            path: path of the document, to which its links are relative.
            page: path of the resulting page, to which the links of the result are relative.
            lifted: number of levels by which headings are raised; 1 for a chapter that becomes a page.
        """
        tokens = self._markdown.parse(text)
        parts = tuple(_with_anchors(tokens))
        for token in tokens:
            if token.type in ("heading_open", "heading_close"):
                token.tag = f"h{int(token.tag[1]) - lifted}"
            if token.type == "inline" and token.children is not None:
                token.children = list(self._linked(token.children, path, page))
        html = self._markdown.renderer.render(tokens, self._markdown.options, {})
        return Rendered(_scrolling(html), parts)

    def sentence(self, text: str, page: str) -> str:
        """Render one line of text, with links to the rules and scenarios that it cites."""
        (token,) = self._sentences.parseInline(text)
        assert token.children is not None
        token.children = list(self._linked(token.children, "", page))
        return str(self._sentences.renderer.render([token], self._sentences.options, {}))

    def _linked(self, tokens: Sequence[Token], path: str, page: str) -> Iterator[Token]:
        """Yield the tokens of a line. Change links to files into links to pages of the site, and link cited rules."""
        kept: list[bool] = []
        for token in tokens:
            if token.type == "link_open":
                target = self._target(str(token.attrs["href"]), path, page)
                kept.append(target is not None)
                if target is not None:
                    token.attrs["href"] = target
                    yield token
            elif token.type == "link_close":
                if kept.pop():
                    yield token
            elif kept:
                yield token
            elif token.type == "image":
                token.attrs["src"] = relative(
                    page, picture(posixpath.join(posixpath.dirname(path), str(token.attrs["src"])))
                )
                yield token
            elif token.type == "code_inline":
                yield from self._scenario_link(token, page)
            elif token.type == "text":
                yield from _cited(token, lambda name: f"{relative(page, 'docs/rules.html')}#{name.lower()}")
            else:
                yield token

    def _scenario_link(self, token: Token, page: str) -> Iterator[Token]:
        match = OF_SCENARIO.fullmatch(token.content)
        if match and match[1] in self._scenarios:
            yield from _link(relative(page, f"scenarios/{match[1]}.html"), token)
        else:
            yield token

    def _target(self, href: str, path: str, page: str) -> str | None:
        """Return the target that a link of a document has on the site; None if the site lacks that document."""
        if re.match(r"https?://", href):
            return href
        there, _, anchor = href.partition("#")
        document = posixpath.normpath(posixpath.join(posixpath.dirname(path), there)) if there else path
        if (document, anchor) in self._anchors:
            return relative(page, self._anchors[document, anchor])
        if document not in self._pages:
            return None
        return relative(page, self._pages[document]) + (f"#{anchor}" if anchor else "")


def picture(path: str) -> str:
    """Return a picture's path below the root of the site, given its path below the root of the project."""
    return f"docs/{posixpath.basename(path)}"


def relative(page: str, target: str) -> str:
    """Return the relative link from one page to another; both paths are from the root of the site."""
    return posixpath.relpath(target, posixpath.dirname(page) or ".")


def _with_anchors(tokens: Sequence[Token]) -> Iterator[DocumentPart]:
    """Set the anchors of headings in the tokens, and yield the part of the document below each heading.

    The heading `R19 ...` gets the anchor `r19`, and a table row that begins with the cell `S29` gets `s29`.
    """
    taken: dict[str, int] = {}
    for index, token in enumerate(tokens):
        if token.type == "heading_open":
            text = _plain(tokens[index + 1])
            rule = CITED.match(text)
            anchor = rule[0].lower() if rule else slug(text, taken)
            token.attrs["id"] = anchor
            below = takewhile(lambda item: item.type != "heading_open", tokens[index + 3 :])
            words = " ".join(item.content for item in below if item.type in ("inline", "fence"))
            yield DocumentPart(int(token.tag[1]), anchor, text, words)
        elif token.type == "tr_open" and tokens[index + 1].type == "td_open":
            text = tokens[index + 2].content
            if CITED.fullmatch(text):
                token.attrs["id"] = text.lower()


def _plain(inline: Token) -> str:
    return "".join(child.content for child in inline.children or ())


def _cited(token: Token, href: Callable[[str], str]) -> Iterator[Token]:
    """Yield the tokens of a text, with links for cited rules and invariants such as R19."""
    start = 0
    for match in CITED.finditer(token.content):
        yield _text(token.content[start : match.start()])
        yield from _link(href(match[0]), _text(match[0]))
        start = match.end()
    yield _text(token.content[start:])


def _text(content: str) -> Token:
    return Token("text", "", 0, content=content)


def _link(href: str, inside: Token) -> Iterator[Token]:
    yield Token("link_open", "a", 1, attrs={"href": href})
    yield inside
    yield Token("link_close", "a", -1)


def _scrolling(html: str) -> str:
    """Return the HTML with wide tables and code blocks made scrollable, also with the keyboard."""
    html = html.replace("<table>", '<div class="wide" tabindex="0" role="group" aria-label="table"><table>')
    html = html.replace("</table>", "</table></div>").replace("<pre>", '<pre tabindex="0">')
    return re.sub(r"<th>\s*</th>", "<td></td>", html)


def parts_of(text: str) -> list[tuple[str, str]]:
    """Split a document at its second-level headings. Return (heading, text including the heading) for each part.

    The text before the first heading has an empty heading.
    """
    parts = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    return [
        (part.partition("\n")[0].removeprefix("## ").strip() if part.startswith("## ") else "", part) for part in parts
    ]


# ------------------------------------------------------------------------------------------------------------ agreement


@dataclass(frozen=True, slots=True)
class SheetEntry:
    """The comparison of one bundled run with Apache Kafka.

    Attributes:
        run: id of the scenario; for a variant followed by `:` and the variant's id.
        kafka: the Kafka version.
        standing: the verdict: `same`, `noise` or `differs`.
        differs: the differences as text.
    """

    run: str
    kafka: str
    standing: str
    differs: tuple[str, ...] = ()


def agreements(sheet: str) -> dict[str, list[SheetEntry]]:
    """Parse the document with the comparisons, agree/SHEET.md, and return its entries by scenario."""
    found: list[SheetEntry] = []
    kafka = ""
    rows: dict[tuple[str, str], tuple[str, list[str]]] = {}
    last: tuple[str, str] | None = None
    for paragraph in re.split(r"\n\n+", sheet):
        same = re.match(r"([0-9.]+), the same[^:]*: (.*)", paragraph, re.DOTALL)
        others = re.match(r"Kafka ([0-9.]+), the others", paragraph)
        if same:
            found += [SheetEntry(name, same[1], "same") for name in re.findall(r"`([^`]+)`", same[2])]
        elif others:
            kafka = others[1]
        elif kafka and paragraph.startswith("| scenario |"):
            for line in paragraph.splitlines()[2:]:
                name, standing, _, differs, *_ = (cell.strip() for cell in line.strip("|").split(" | "))
                if name.strip("` "):
                    last = name.strip("` "), kafka
                    rows[last] = (standing, [])
                if last is not None:
                    rows[last][1].append(differs)
            kafka = ""
    found += [SheetEntry(*which, standing, tuple(differs)) for which, (standing, differs) in rows.items()]
    by_scenario: dict[str, list[SheetEntry]] = {}
    for item in found:
        by_scenario.setdefault(item.run.split(":")[0], []).append(item)
    return by_scenario

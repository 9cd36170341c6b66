"""The papers beside the code: what they name exists, what code cites is in them, generated parts are up to date.

`pytest --rewrite` writes the generated parts anew; then read the diff.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import click
import networkx as nx
import pytest
from click.testing import CliRunner
from kafka.protocol.broker_version_data import BROKER_API_VERSIONS
from papers import (
    PACKAGES,
    ROOT,
    anchors,
    defines,
    files,
    missing_paths,
    papers,
    places_of_differences,
    sources,
    text_of,
    wrong_commands,
    wrong_links,
)

from cluster.broker.apis.offered import offered
from cluster.protocol.versions import api_name
from replica.causes import Cause
from replica.rules import Rules, spelled
from replica.wording import listed
from scenarios.check.invariants.checker import all_invariants
from scenarios.check.promises import GAPS
from scenarios.cli.main import cli
from scenarios.language.expect import JEPSEN_CLASS
from scenarios.language.parse.catalogue import bundled
from scenarios.language.rules_table import as_markdown, rule_rows
from scenarios.language.steps import ANSWER_KINDS, answer_table
from scenarios.language.verbs.every import GROUPS
from scenarios.language.write.describe import step_table
from spark_reports import results
from tests.catalogue import bundled_file, bundled_files

RULES = ROOT / "replica" / "RULES.md"
LANGUAGE = ROOT / "scenarios" / "LANGUAGE.md"
Generated = Callable[[Path, str, str], None]
README_LINES_MAX = 200
PICTURE_BYTES_MAX = 200_000


@pytest.fixture
def generated(request: pytest.FixtureRequest) -> Generated:
    """Compare the part of a paper between `<!-- NAME -->` and `<!-- end -->` with what it should be, or write it."""

    def check(path: Path, name: str, wanted: str) -> None:
        text = path.read_text(encoding="utf-8")
        begin, end = f"<!-- {name} -->\n", "<!-- end -->"
        before, found_begin, rest = text.partition(begin)
        part, found_end, after = rest.partition(end)
        assert found_begin and found_end, f"{path} has no part called {name}"
        if request.config.getoption("--rewrite"):
            path.write_text(before + begin + wanted + end + after, encoding="utf-8")
        else:
            assert part == wanted, f"{path.relative_to(ROOT)}: pytest --rewrite writes this part anew"

    return check


# -------------------------------------------------------------------------- links, paths and citations


@pytest.mark.parametrize("paper", papers(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(paper: Path) -> None:
    assert not list(wrong_links(paper, paper.read_text(encoding="utf-8")))


def test_a_wrong_link_is_found() -> None:
    text = "[a](RULES.md), [b](NO.md), [c](#a-heading), [d](#none), [e](https://example.org/x)\n\n## A heading!\n"
    here = ROOT / "replica" / "x.md"
    assert list(wrong_links(here, text.replace("[c](#a-heading), [d](#none), ", ""))) == [
        "x.md links to NO.md, which does not exist"
    ]
    assert anchors(text) == ["a-heading"]


@pytest.mark.parametrize("paper", papers(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_paths_exist(paper: Path) -> None:
    assert missing_paths(paper, paper.read_text(encoding="utf-8")) == []


def test_a_missing_path_is_found() -> None:
    paths = "`replica/leader.py`, `replica/le*.py`, `replica/no*.py`, `replica/no.py:X` and `scenarios/none/`"
    text = f"{paths}\n```\n`replica/in_an_example.py`\n```\n"
    assert missing_paths(RULES, text) == ["replica/no*.py", "replica/no.py", "scenarios/none/"]


def test_no_source_refers_to_an_absent_paper() -> None:
    known = [path.name for path in papers()]
    absent = [
        f"{path.relative_to(ROOT)}: {name}"
        for path, text in sources(".py", ".yaml", ".txt", ".toml", ".md")
        for name in re.findall(r"\b[\w-]+\.md\b", text)
        if name not in known
    ]
    assert absent == []


# -------------------------------------------------------------------------------------------- RULES.md


def defined() -> list[str]:
    """Rules R, worked examples W, invariants S and L."""
    text = RULES.read_text(encoding="utf-8")
    return re.findall(r"^### (R\d+) ", text, re.MULTILINE) + re.findall(r"^\| ([WSL]\d+) \|", text, re.MULTILINE)


CITED = re.compile(r"(?<![\w\".-])([RWSL]\d{1,2})(?![\w-])")


def test_rules_are_defined_once_and_in_order() -> None:
    for letter in "RWSL":
        numbers = [int(name[1:]) for name in defined() if name[0] == letter]
        assert numbers == list(range(1, len(numbers) + 1))


def test_every_cited_rule_is_defined() -> None:
    known = defined()
    unknown = [
        f"{path.relative_to(ROOT)}: {name}"
        for path, text in sources(".py", ".yaml", ".txt", ".md")
        for name in CITED.findall(text)
        if name not in known
    ]
    assert unknown == []


def test_every_invariant_of_the_checker_is_defined() -> None:
    known = defined()
    for invariant in all_invariants():
        said = re.findall(r"\b[SL]\d+", (invariant.__doc__ or "").split(":")[0]) or [invariant.NAME]
        assert all(name in known for name in said), invariant
    table = RULES.read_text(encoding="utf-8")
    checked_by = re.findall(r"^\| ([SL]\d+) \|.*\| ([^|]*) \|$", table, re.MULTILINE)
    named = {name for _, cell in checked_by for name in re.findall(r":(\w+)`", cell)}
    assert named == {invariant.__name__ for invariant in all_invariants()}
    for name, cell in checked_by:
        files = re.findall(r"`(\w+\.py):(\w+)`", cell)
        for file, found in files:
            source = (ROOT / "scenarios" / "check" / "invariants" / file).read_text(encoding="utf-8")
            assert f"class {found}(" in source and re.search(rf"\b{name}\b", source), (name, file, found)


def test_every_invariant_says_which_everyday_operation_could_make_it_false() -> None:
    rows = re.findall(r"^\| [SL]\d+ \|.*$", RULES.read_text(encoding="utf-8"), re.MULTILINE)
    answers = [row.split(" | ")[-2] for row in rows]
    assert len(rows) == len(dict.fromkeys(answers))
    assert all(answer.endswith(".") for answer in answers)


@pytest.mark.parametrize("paper", papers(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_code_that_a_paper_names_exists(paper: Path) -> None:
    """`replica/leader.py:LeaderState.step`: the module defines that name."""
    named = re.findall(r"`([\w./]+/\w+\.py):([\w.]+)`", paper.read_text(encoding="utf-8"))
    assert [(file, name) for file, name in named if not defines(ROOT / file, name)] == []


def test_methods_of_the_tour_exist() -> None:
    """`LeaderState.step`, without its file: some class of that name has it."""
    tour = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = dict.fromkeys(re.findall(r"`([A-Z]\w+\.\w+)`", tour))
    assert len(named) > 5
    classes = [path for path in files() if path.suffix == ".py" and path.relative_to(ROOT).parts[0] in PACKAGES[:-1]]
    found = [
        name
        for name in named
        for path in classes
        if f"class {name.split('.')[0]}" in text_of(path) and defines(path, name)
    ]
    assert [name for name in named if name not in found] == []


def test_a_missing_name_is_found() -> None:
    assert defines(RULES.parent / "leader.py", "LeaderState.step") and defines(
        RULES.parent / "leader.py", "NOT_APPLIED"
    )
    assert not defines(RULES.parent / "leader.py", "LeaderState.leap")


def test_every_switch_belongs_to_a_rule() -> None:
    text = RULES.read_text(encoding="utf-8")
    said = re.findall(r"Switch(?:es)?: ((?:`[\w-]+`,?\s?(?:\([^)]*\))?,? ?)+)", text)
    assert sorted({name for part in said for name in re.findall(r"`([\w-]+)`", part)}) == sorted(Rules.switches())


def test_the_tables_of_the_report(generated: Generated) -> None:
    generated(ROOT / "spark_reports" / "TABLES.md", "tables", f"\n{results.as_markdown()}\n")


def test_the_lists_of_causes(generated: Generated) -> None:
    """Those who query a trace go by them."""
    lists = [
        "\n".join(
            [f"## {cls.__name__}", "", str(cls.__doc__), "", "| word | meaning |", "|---|---|"]
            + [f"| {cause} | {cause.meaning} |" for cause in cls]
        )
        for cls in Cause.__subclasses__()
    ]
    generated(ROOT / "spark_reports" / "TABLES.md", "causes", "\n" + "\n\n".join(lists) + "\n")


def test_the_table_of_switches(generated: Generated) -> None:
    rows = rule_rows(bundled_files())
    generated(RULES, "highwater rules --format markdown", as_markdown(rows))


@pytest.mark.parametrize("group", GROUPS)
def test_the_steps_of_a_timeline(group: str, generated: Generated) -> None:
    generated(LANGUAGE, f"steps: {group}", step_table(GROUPS[group]))


def test_the_answers_of_a_question(generated: Generated) -> None:
    generated(LANGUAGE, "questions", answer_table(ANSWER_KINDS.items()))


def test_what_an_old_rule_does_not_promise(generated: Generated) -> None:
    lines = ["| switch and value | invariants that can break | closed by |", "|---|---|---|"]
    for gap in GAPS:
        values = " or ".join(spelled(value) for value in gap.values)
        only = f" with `{gap.only_with[0]}: {spelled(gap.only_with[1])}`" if gap.only_with else ""
        after = f", after {' and '.join(gap.after)}" if gap.after else ""
        broken = ", ".join(sorted(gap.invariants, key=lambda name: (name[0], int(name[1:].split()[0]), name)))
        lines.append(f"| `{gap.switch}: {values}`{only}{after} | {broken} | {gap.rule} |")
    generated(RULES, "gaps", "\n".join(lines) + "\n")


# ----------------------------------------------------------------------------------------- FIDELITY.md

FIDELITY = ROOT / "cluster" / "FIDELITY.md"


def test_the_apis_that_are_not_offered(generated: Generated) -> None:
    missing = [api_name(key) for key in BROKER_API_VERSIONS[4, 1] if key not in offered("4.1")]
    names = listed(missing) if missing else "none"
    said = f"APIs that brokers of Kafka 4.1 offer and brokers here do not: {names}."
    generated(FIDELITY, "APIs that are not offered", f"{said}\n")


def test_every_difference_has_its_row_and_every_row_its_place() -> None:
    rows = re.findall(r"^\| .* \| `([\w./:]+)` \|$", FIDELITY.read_text(encoding="utf-8"), re.MULTILINE)
    assert all((ROOT / row.split(":")[0]).exists() for row in rows)
    packages = [path for path in files() if path.suffix == ".py" and path.relative_to(ROOT).parts[0] != "tests"]
    comments = Counter(place for path in packages for place in places_of_differences(path))
    assert sorted(comments - Counter(rows)) == [], "comments that have no row of their own in cluster/FIDELITY.md"
    assert [row for row in rows if ":" in row and row not in comments] == [], "rows whose comment is gone"


def test_where_a_difference_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("papers.ROOT", tmp_path)
    toy = tmp_path / "toy.py"
    toy.write_text("# Simplified: a\nclass A:\n    def f(self):\n        pass  # Differs from Kafka: b\n")
    assert places_of_differences(toy) == ["toy.py", "toy.py:A.f"]


# ---------------------------------------------------------------------------------- README and manuals


def test_the_readme_is_short_and_its_pictures_are_small() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(readme.splitlines()) <= README_LINES_MAX
    pictures = [ROOT / name for name in re.findall(r"!\[[^]]*\]\(([^)]+)\)", readme)]
    assert pictures
    assert [path.name for path in pictures if path.stat().st_size > PICTURE_BYTES_MAX] == []


def screen(words: str) -> str:
    """What a command prints, as a paper shows it. How long a run took differs from one to the next."""
    result = CliRunner().invoke(cli, words.split()[1:], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    printed = re.sub(r"events, in [\d.]+ s", "events, in 0.2 s", result.stdout).strip("\n")
    return f"```text\n$ {words}\n{printed}\n```\n"


def test_screens_are_what_the_commands_print(
    generated: Generated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    manual = ROOT / "scenarios" / "cli" / "MANUAL.md"
    shown = {
        "highwater run acks1-leader-kill": ROOT / "README.md",
        "highwater compare acks1-leader-kill": ROOT / "README.md",
        "highwater explain last r12": manual,
        "highwater explain last r12 --what-if": manual,
    }
    for words, paper in shown.items():
        generated(paper, words, screen(words))


@pytest.mark.parametrize("paper", papers(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_commands_exist(paper: Path) -> None:
    assert list(wrong_commands(paper.read_text(encoding="utf-8"))) == []


def test_targets_of_make_exist() -> None:
    targets = re.findall(r"^([a-z]+):", text_of(ROOT / "Makefile"), re.MULTILINE)
    named = [
        (path.name, name) for path in papers() for name in re.findall(r"(?:`|^)make ([a-z]+)", text_of(path), re.M)
    ]
    assert ("README.md", "demo") in named and [(paper, name) for paper, name in named if name not in targets] == []


def test_a_wrong_command_is_found() -> None:
    inline = "`highwater run x --seed 1`, `highwater walk`, `highwater run no-such`"
    text = f"{inline}\n```\n$ highwater run x --sede 1   # --why\n```\n"
    assert list(wrong_commands(text)) == [
        "highwater walk: there is no walk",
        "highwater run no-such: there is no scenario no-such",
        "highwater run x --sede 1   # --why: no --sede",
    ]


def test_every_command_is_in_the_manual() -> None:
    manual = (ROOT / "scenarios" / "cli" / "MANUAL.md").read_text(encoding="utf-8")
    named = re.findall(r"^\| `highwater ([a-z]+)", manual, re.MULTILINE)
    assert sorted(named) == sorted(cli.list_commands(click.Context(cli)))


def test_every_kind_of_verdict_is_explained() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| .* \| ([\w-]*) ?\|$", (ROOT / "scenarios" / "LANGUAGE.md").read_text(), re.M)
    assert [(kind, jepsen or None) for kind, jepsen in rows if kind in JEPSEN_CLASS] == list(JEPSEN_CLASS.items())


def drawing(package: str, rooms: dict[str, list[str]]) -> str:
    """The rooms of one package in Mermaid, without the arrows that follow from others."""
    graph = nx.DiGraph([(room, other) for room in rooms for other in rooms[room]])
    graph.add_nodes_from(rooms)
    arrows = sorted(nx.transitive_reduction(graph).edges)

    def node(room: str) -> str:
        return f'{room.replace(".", "_")}["{room.removeprefix(package + ".").replace(".", "/")}"]'

    lines = [f"    {node(room)} --> {node(other)}" for room, other in arrows]
    alone = [f"    {node(room)}" for room in sorted(rooms) if not graph.degree(room)]
    return "\n".join(["```mermaid", "flowchart LR", *lines, *alone, "```", ""])


def test_the_drawings_of_the_rooms(generated: Generated) -> None:
    table = tomllib.loads((ROOT / "tests" / "rooms.toml").read_text(encoding="utf-8"))
    del table["annexes"]
    parts = []
    for package in dict.fromkeys(room.split(".")[0] for room in table):
        rooms = {room: row["may_import"] for room, row in table.items() if room.split(".")[0] == package}
        parts.append(f"**{package}**\n\n{drawing(package, rooms)}")
    generated(ROOT / "CONTRIBUTING.md", "rooms", "\n".join(parts))


# ------------------------------------------------------------------------------------------ LESSONS.md


def test_the_course_has_every_scenario_once_with_its_verdicts() -> None:
    lessons = (ROOT / "scenarios" / "LESSONS.md").read_text(encoding="utf-8")
    said = {
        name: (command, cell)
        for command, name, cell in re.findall(
            r"^\| `highwater (\w+) ([\w-]+)` \|.*\| ([^|]*) \|$", lessons, re.MULTILINE
        )
    }
    expected = {}
    for name in bundled():
        file = bundled_file(name)
        verdicts = [", ".join(one.expect.verdict or ()) or "ok" for one in (file.scenario, *file.variants.values())]
        named = [f"`{variant}` {verdict}" for variant, verdict in zip(file.variants, verdicts[1:], strict=True)]
        expected[name] = ("compare" if named else "run", "; ".join([verdicts[0], *named]))
    assert said == expected
    assert len(re.findall(r"^\| `highwater ", lessons, re.MULTILINE)) == len(expected)

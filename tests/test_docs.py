"""The docs: what they name exists, what code cites is in them, generated parts are up to date.

`pytest --rewrite` writes the generated parts anew; then read the diff.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import networkx as nx
import pytest
from click.testing import CliRunner
from kafka.protocol.broker_version_data import BROKER_API_VERSIONS

from cluster.broker.apis.offered import offered
from cluster.protocol.versions import api_name
from replica.causes import Cause
from replica.rules import KafkaRelease, Rules, spelled
from replica.wording import listed
from scenarios.check.invariants.checker import all_invariants
from scenarios.check.promises import GAPS
from scenarios.cli.main import cli
from scenarios.language.expect import JEPSEN_CLASS
from scenarios.language.parse.catalogue import LESSONS, bundled, read_outline
from scenarios.language.rules_table import as_markdown, rule_rows
from scenarios.language.steps import ANSWER_KINDS
from scenarios.language.verbs.declaration import Declaration, Key
from scenarios.language.verbs.every import GROUPS
from spark_reports import results
from tests.catalogue import bundled_file, bundled_files
from tests.docs import (
    PACKAGES,
    ROOT,
    anchors,
    defines,
    docs,
    files,
    long_cells,
    missing_paths,
    places_of_differences,
    sources,
    text_of,
    wrong_commands,
    wrong_links,
)

RULES = ROOT / "replica" / "RULES.md"
LANGUAGE = ROOT / "scenarios" / "LANGUAGE.md"
Generated = Callable[[Path, str, str], None]
MANUALS = (
    "scenarios/cli/MANUAL.md",
    "scenarios/serve/MANUAL.md",
    "scenarios/LANGUAGE.md",
    "spark_reports/MANUAL.md",
)
README_LINES_MAX = 200
PICTURE_BYTES_MAX = 200_000


@pytest.fixture
def generated(request: pytest.FixtureRequest) -> Generated:
    """Compare the part of a doc between `<!-- NAME -->` and `<!-- end -->` with what it should be, or write it."""

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


@pytest.mark.parametrize("doc", docs(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(doc: Path) -> None:
    assert not list(wrong_links(doc, doc.read_text(encoding="utf-8")))


def test_a_wrong_link_is_found() -> None:
    text = "[a](RULES.md), [b](NO.md), [c](#a-heading), [d](#none), [e](https://example.org/x)\n\n## A heading!\n"
    here = ROOT / "replica" / "x.md"
    assert list(wrong_links(here, text.replace("[c](#a-heading), [d](#none), ", ""))) == [
        "x.md links to NO.md, which does not exist"
    ]
    assert anchors(text) == ["a-heading"]


@pytest.mark.parametrize("doc", docs(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_cell_of_a_table_is_not_longer_than_a_line(doc: Path) -> None:
    text = re.sub(r"test tests/\S+::.*?(?=<br>| \|$)", "", doc.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert list(long_cells(text)) == []  # A test's name with its parameters is as long as it is.


def test_a_long_cell_is_found() -> None:
    fits, long = "x" * 160, "y" * 161
    table = f"| {fits} | {long} |\n| {fits}<br>{fits} | \\| |\n"
    assert list(long_cells(f"{table}```\n| {long} |\n```\n")) == [long]


@pytest.mark.parametrize("doc", docs(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_paths_exist(doc: Path) -> None:
    assert missing_paths(doc, doc.read_text(encoding="utf-8")) == []


def test_a_missing_path_is_found() -> None:
    paths = "`replica/leader.py`, `replica/le*.py`, `replica/no*.py`, `replica/no.py:X` and `scenarios/none/`"
    text = f"{paths}\n```\n`replica/in_an_example.py`\n```\n"
    assert missing_paths(RULES, text) == ["replica/no*.py", "replica/no.py", "scenarios/none/"]


def test_no_source_refers_to_an_absent_doc() -> None:
    known = [path.name for path in docs()]
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


@pytest.mark.parametrize("doc", docs(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_code_that_a_doc_names_exists(doc: Path) -> None:
    """`replica/leader.py:LeaderState.step`: the module defines that name."""
    named = re.findall(r"`([\w./]+/\w+\.py):([\w.]+)`", doc.read_text(encoding="utf-8"))
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


def test_the_tour_of_a_produce_has_twelve_files() -> None:
    tour = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    produce = tour.partition("**Where a produce goes**")[2].partition("On a live cluster")[0]
    assert len(set(re.findall(r"`([\w/]+\.py)", produce))) == 12


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


@pytest.mark.soak
def test_the_table_of_switches(generated: Generated) -> None:
    rows = rule_rows(bundled_files())
    generated(RULES, "highwater rules --format markdown", as_markdown(rows))


@pytest.mark.parametrize("group", GROUPS)
def test_the_steps_of_a_timeline(group: str, generated: Generated) -> None:
    head = "| step | what it does | may be left out | `for` |\n|---|---|---|---|\n"
    generated(LANGUAGE, f"steps: {group}", head + "".join(row for verb in GROUPS[group] for row in _rows(verb)))


def _rows(verb: Declaration) -> Iterator[str]:
    may_miss = [key for key in verb.keys if not key.required and not key.bare and key.name not in verb.one_of]
    optional = ", ".join(map(_optional, may_miss))
    for number, (example, doc) in enumerate(verb.examples.items()):
        notes = (optional, "undoes it" if verb.effect.undoable else "") if number == 0 else ("", "")
        yield f"| `{verb.name}: {example}` | {doc} | {notes[0]} | {notes[1]} |\n"


def _optional(key: Key) -> str:
    """Return a key with its default, such as `direction: both`, or only its name if it has no constant default."""
    return f"`{key.name}: {key.kind.write(key.default)}`" if key.default and not key.default_of else f"`{key.name}`"


def test_the_answers_of_a_question(generated: Generated) -> None:
    rows = [
        f"| `{name}` | {kind.names.value} | {kind.doc} | `{kind.example}` |\n" for name, kind in ANSWER_KINDS.items()
    ]
    generated(
        LANGUAGE, "questions", "| `answer_from` | names | answer | example |\n|---|---|---|---|\n" + "".join(rows)
    )


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
    newest = max(BROKER_API_VERSIONS)
    release = KafkaRelease(*newest)
    missing = [api_name(key) for key in BROKER_API_VERSIONS[newest] if key not in offered(release)]
    names = listed(missing) if missing else "none"
    said = f"APIs that brokers of Kafka {release} offer and brokers here do not: {names}."
    generated(FIDELITY, "APIs that are not offered", f"{said}\n")


def test_every_difference_has_its_row_and_every_row_its_place() -> None:
    rows = re.findall(r"^\| .* \| `([\w./:]+)` \|$", FIDELITY.read_text(encoding="utf-8"), re.MULTILINE)
    assert all((ROOT / row.split(":")[0]).exists() for row in rows)
    packages = [path for path in files() if path.suffix == ".py" and path.relative_to(ROOT).parts[0] != "tests"]
    comments = Counter(place for path in packages for place in places_of_differences(path))
    assert sorted(comments - Counter(rows)) == [], "comments that have no row of their own in cluster/FIDELITY.md"
    assert [row for row in rows if ":" in row and row not in comments] == [], "rows whose comment is gone"


def test_where_a_difference_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.docs.ROOT", tmp_path)
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
    """What a command prints, as a doc shows it. How long a run took differs from one to the next."""
    result = CliRunner().invoke(cli, words.split()[1:], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    printed = re.sub(r"events, in [\d.]+ s", "events, in 0.2 s", result.stdout).strip("\n")
    return f"```text\n$ {words}\n{printed}\n```\n"


@pytest.mark.soak
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
    for words, doc in shown.items():
        generated(doc, words, screen(words))


@pytest.mark.parametrize("manual", MANUALS)
def test_a_manual_opens_with_five_commands(manual: str) -> None:
    opening = (ROOT / manual).read_text(encoding="utf-8").partition("```sh\n")
    assert len(opening[0].splitlines()) <= 4
    commands = opening[2].partition("```")[0].splitlines()
    assert len(commands) == 5 and all(command.startswith("highwater ") for command in commands)


@pytest.mark.parametrize("doc", docs(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_commands_exist(doc: Path) -> None:
    assert list(wrong_commands(doc.read_text(encoding="utf-8"))) == []


def test_targets_of_make_exist() -> None:
    targets = re.findall(r"^([a-z]+):", text_of(ROOT / "Makefile"), re.MULTILINE)
    named = [(path.name, name) for path in docs() for name in re.findall(r"(?:`|^)make ([a-z]+)", text_of(path), re.M)]
    assert ("README.md", "demo") in named and [(doc, name) for doc, name in named if name not in targets] == []


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


def drawing(package: str, subpackages: dict[str, list[str]]) -> str:
    """Draw the subpackages of one package in Mermaid, without the arrows that follow from others."""
    graph = nx.DiGraph([(name, other) for name in subpackages for other in subpackages[name]])
    graph.add_nodes_from(subpackages)
    arrows = sorted(nx.transitive_reduction(graph).edges)

    def node(name: str) -> str:
        return f'{name.replace(".", "_")}["{name.removeprefix(package + ".").replace(".", "/")}"]'

    lines = [f"    {node(name)} --> {node(other)}" for name, other in arrows]
    alone = [f"    {node(name)}" for name in sorted(subpackages) if not graph.degree(name)]
    return "\n".join(["```mermaid", "flowchart LR", *lines, *alone, "```", ""])


def test_the_drawings_of_the_subpackages(generated: Generated) -> None:
    table = tomllib.loads((ROOT / "tests" / "subpackages.toml").read_text(encoding="utf-8"))
    del table["annexes"]
    parts = []
    for package in dict.fromkeys(name.split(".")[0] for name in table):
        subpackages = {name: row["may_import"] for name, row in table.items() if name.split(".")[0] == package}
        parts.append(f"**{package}**\n\n{drawing(package, subpackages)}")
    generated(ROOT / "CONTRIBUTING.md", "subpackages", "\n".join(parts))


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


def test_a_class_predicts_before_anything_tells_it_the_end() -> None:
    lessons = (ROOT / "scenarios" / "LESSONS.md").read_text(encoding="utf-8")
    steps = lessons.partition("For each lesson")[2].partition("\n\nThe last column")[0]
    predicted = steps.index("Write down what you expect")
    assert predicted < steps.index("highwater compare") < steps.index("highwater show")
    for row in re.findall(r"^\|.*`highwater show .*$", lessons, re.MULTILINE):
        assert 0 < row.find("writes down") < row.index("highwater show")
    assert "highwater play acks1-leader-kill --bind" in lessons.partition("A lesson of 45")[2].partition("\n## ")[0]


def test_a_scenario_and_the_list_have_the_number_of_its_lesson(request: pytest.FixtureRequest) -> None:
    """`--rewrite` writes the numbers of LESSONS.md into the files."""
    lessons = (ROOT / "scenarios" / "LESSONS.md").read_text(encoding="utf-8")
    titles, number_of = {}, {}
    for number, title, text in re.findall(r"^## (\d+)\. (.*)\n((?:(?!## ).*\n)*)", lessons, re.MULTILINE):
        names = re.findall(r"^\| `highwater \w+ ([\w-]+)` \|", text, re.MULTILINE)
        titles |= {int(number): title} if names else {}
        number_of |= dict.fromkeys(names, int(number))
    assert titles == LESSONS
    if request.config.getoption("--rewrite"):
        for name, path in bundled().items():
            text = re.sub(r"^lesson: .*\n", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
            path.write_text(re.sub(r"^tags:", f"lesson: {number_of[name]}\ntags:", text, count=1, flags=re.MULTILINE))
    assert {name: read_outline(path).lesson for name, path in bundled().items()} == number_of

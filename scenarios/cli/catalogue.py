"""The commands `highwater list`, `show`, `check` and `rules`, which run nothing and import no large library."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from replica.wording import duration
from scenarios.cli.common import fail, format_option, formats, load_scenario, plain_option, print_json, style_for_stdout
from scenarios.cli.completion import scenario_names
from scenarios.cli.worlds import WorldName, WorldType, playable_lines, playable_on_kafka, version_to_list
from scenarios.language.diagnostics import (
    Diagnostic,
    ScenarioInvalid,
    count_line,
    did_you_mean,
    format_github,
    format_json,
    format_text,
)
from scenarios.language.parse import catalogue
from scenarios.language.parse.catalogue import Outline, OutlinedRun
from scenarios.observe.wording import count_of
from scenarios.terminal.interruption import ExitCode
from scenarios.terminal.style import Style, folded, table_lines

if TYPE_CHECKING:
    from scenarios.language.rules_table import RuleRow
    from scenarios.language.spec import Scenario, ScenarioFile

# ---------------------------------------------------------------------------------------------------------------- list


@click.command("list")
@click.argument("words", nargs=-1, metavar="[WORD]...")
@click.option("--tag", metavar="TAG", help="Only scenarios with this tag, such as acks, isr, election, network, disk.")
@click.option("--on", "on", type=WorldType(), help="Show which runs Kafka can play: kafka or kafka:4.1.0.")
@plain_option
@format_option
def list_scenarios(words: tuple[str, ...], tag: str | None, on: WorldName | None, plain: bool, format_: str) -> int:
    """List the bundled scenarios by the lessons of scenarios/LESSONS.md, each with its expectations.

    With WORDs, list only the scenarios that have all of them in a title, a question, a setting, a verb, a tag,
    a source, a verdict or a name. The beginning of a word is enough.
    """
    words = tuple(" ".join(words).split())
    tagged = catalogue.sections(tag)
    if not tagged:
        raise click.UsageError(f"No scenario has the tag `{tag}`; choose one of {', '.join(catalogue.all_tags())}")
    found = catalogue.with_words(tagged, words)
    if not found:
        raise click.UsageError(_nothing_found(tagged, words))
    if on is not None:
        version = version_to_list(on)
        rows = playable_on_kafka(version, [file.id for section in found for file in section.files])
        if format_ == "json":
            print_json({"kafka": version, "scenarios": rows})
        else:
            click.echo("\n".join(playable_lines(version, rows, style_for_stdout(plain))))
        return ExitCode.HELD
    if format_ == "json":
        print_json(_list_document(found, words))
        return ExitCode.HELD
    click.echo("\n".join(_list_lines(found, style_for_stdout(plain), words, begins=tag is None and not words)))
    return ExitCode.HELD


def _nothing_found(sections: Sequence[catalogue.Section], words: Sequence[str]) -> str:
    from scenarios.language.values.synonyms import FIELD_SYNONYMS

    site = "To search by symptom: highwater site --out DIR"
    there = [word for word in words if catalogue.with_words(sections, [word])]
    missing = next((word for word in words if word not in there), None)
    if missing is None:
        return f"No scenario has all of these words: {', '.join(words)}. Try fewer words. {site}"
    meant = FIELD_SYNONYMS.get(missing.lower(), missing.removesuffix("s")).split()[0]
    if meant != missing and catalogue.with_words(sections, [meant]):
        hint = f"Try `{meant}` instead."
    elif there:
        hint = f"Try only {' or '.join(f'`{word}`' for word in there)}. {site}"
    else:
        titles = " ".join(f"{file.title} {' '.join(file.tags)}" for section in sections for file in section.files)
        close = did_you_mean(missing.lower(), re.findall(r"[a-z]{3,}", titles.lower()), alike=0.8)
        hint = f"Did you mean `{close}`?" if close else site
    return f"No scenario has `{missing}` in a title, a question, a setting, a verb or a source. {hint}"


FIRST_THREE = ("acks1-leader-kill", "min-isr-1-trap", "unclean-election")
"""Scenarios for newcomers, about acks=1, min.insync.replicas with acks=all, and unclean leader election."""
_ENDS_WIDTH = 12
_PLACES_SHOWN = 6


def _list_lines(
    found: Sequence[catalogue.Section], style: Style, words: Sequence[str] = (), *, begins: bool
) -> list[str]:
    """Return the lines of `highwater list`: a table of scenarios that fits the screen.

    Args:
        words: search words; the lines below each scenario show where they occur in it.
        begins: list the three scenarios for newcomers before the table.
    """
    files = [file for section in found for file in section.files]
    by_id = {file.id: file for file in files}
    lines: list[str] = []
    if begins:
        lines.append(f"  {style.bold('BEGIN WITH')}")
        lines += [f"    highwater run {name:<20} {by_id[name].title}" for name in FIRST_THREE]
        lines.append("")
    title_width = style.width - max(len(file.id) for file in files) - _ENDS_WIDTH - 6
    rows: list[tuple[str, ...] | str] = [tuple(map(style.bold, ("SCENARIO", "WHAT HAPPENS", "VERDICT")))]
    for section in found:
        head = f"LESSON {section.lesson}  {section.title}" if section.lesson else section.title.upper()
        rows += ["", f"  {style.bold(head)}"]
        for file in section.files:
            rows.append(_list_row(file, style, title_width))
            rows += [line for word in words for line in _where(file, word, style, one_of=len(words))]
    lines += table_lines(rows)
    variants = sum(len(file.variants) for file in files)
    dot = style.sign("dot")
    counted = f"{count_of(len(files), 'scenario')}, {count_of(variants, 'variant')}"
    return [
        *lines,
        "",
        "  VERDICT: of the scenario / of its variants; ok: no anomaly",
        f"  {counted} {dot} highwater show NAME {dot} highwater run NAME",
        *(["  To search by symptom: highwater site --out DIR"] if words else []),
    ]


def _where(file: Outline, word: str, style: Style, *, one_of: int) -> list[str]:
    """Return lines with the parts of a scenario that contain a search word.

    Args:
        one_of: number of search words; if there are several, the lines begin with the word.
    """
    places = file.places_of(word)
    more = len(places) - _PLACES_SHOWN
    text = ", ".join(places[:_PLACES_SHOWN]) + (f" and {more} more" if more > 0 else "")
    return folded(f"{word}: {text}" if one_of > 1 else text, style.width, "      ", "      ")


def _list_row(file: Outline, style: Style, title_width: int) -> tuple[str, str, str]:
    """Return the table row of a scenario: id, title and verdicts, wrapped to the width of their columns."""
    outcomes = " / ".join(_worst([outcome.words for outcome in file.all]))
    ends = "\n".join(folded(outcomes, _ENDS_WIDTH))
    painted = re.sub(r"[a-z-]+", lambda word: style.paint(word[0], "green" if word[0] == "ok" else "red"), ends)
    return file.id, "\n".join(folded(file.title, title_width)), painted


def _worst(outcomes: Sequence[str]) -> list[str]:
    """Return the distinct outcomes, except those that another contains, as `lost, dirty-read` contains `lost`."""
    words = {outcome: {*outcome.split(", ")} for outcome in outcomes}
    return [word for word in words if not any(words[word] < other for other in words.values())]


def _list_document(found: Sequence[catalogue.Section], words: Sequence[str]) -> dict[str, Any]:
    return {
        "scenarios": [
            {
                "id": file.id,
                "title": file.title,
                "question": file.question,
                "lesson": section.lesson,
                "tags": list(file.tags),
                "profile": file.profile,
                "verdict": _verdict(file.base),
                "variants": [
                    {"id": variant.id, "title": variant.title, "verdict": _verdict(variant)}
                    for variant in file.variants
                ],
                "path": file.path,
                **({"matches": {word: list(file.places_of(word)) for word in words}} if words else {}),
            }
            for section in found
            for file in section.files
        ]
    }


def _verdict(outcome: OutlinedRun) -> list[str] | None:
    return None if outcome.verdict is None else list(outcome.verdict)


# ---------------------------------------------------------------------------------------------------------------- show


@click.command()
@click.argument("scenario", shell_complete=scenario_names)
@click.option("--yaml", "as_yaml", is_flag=True, help="Print the scenario file itself.")
@plain_option
@format_option
def show(scenario: str, as_yaml: bool, plain: bool, format_: str) -> int:
    """Show the story of SCENARIO (a bundled id or a file), its timeline, and what each variant is expected to do."""
    file = load_scenario(scenario)
    if as_yaml:
        click.echo(file.text, nl=not file.text.endswith("\n"))
    elif format_ == "json":
        print_json(_show_document(file))
    else:
        click.echo("\n".join(_show_lines(file, scenario, style_for_stdout(plain))))
    return ExitCode.HELD


def _show_document(file: ScenarioFile) -> dict[str, Any]:
    from scenarios.language.write.lock import as_tree

    return {"path": file.path, "story": story(file.text), "scenarios": [as_tree(scenario) for scenario in file.all]}


def story(text: str) -> str:
    """Return the comment at the top of a scenario file, without `#`. It describes what happens in the run."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#").removeprefix(" ").rstrip())
    return "\n".join(lines).strip()


def _show_lines(file: ScenarioFile, name: str, style: Style) -> list[str]:
    """Return the lines of `highwater show`.

    Args:
        name: the scenario as the user wrote it on the command line.
    """
    from scenarios.language.write import describe

    scenario = file.scenario
    title, *more = _hanging([f"  {scenario.id} {style.sign('dot')} {scenario.title}"], 4, style)
    lines = ["", title.replace(scenario.id, style.bold(scenario.id), 1), *more]
    lines += _hanging([f"  {scenario.question}"], 2, style) if scenario.question else []
    lines += ["", *_indented(story(file.text), 2, style), ""] if story(file.text) else [""]
    lines += _hanging((f"  {name:<10} {text}" for name, text in _events(scenario)), 13, style)
    lines += ["", *("  " + line for line in describe.sketch(scenario, plain=style.plain)), ""]
    lines += _hanging(("  " + line for line in describe.timeline_lines(scenario)), 12, style)
    lines += ["", *_expected(scenario, style, None)]
    for variant in file.variants.values():
        lines += _expected(variant, style, variant.variant)
    lines += ["", "  Sources"] if scenario.sources else []
    for source in scenario.sources:
        lines += _indented(source.ref + (" (cited from memory)" if source.recalled else ""), 4, style)
        lines += [f"      {source.url}"] if source.url else []
    name = shlex.quote(name)
    lines += ["", f"  File     {file.path}", f"  Run it   highwater run {name}"]
    if file.variants:
        lines.append(f"           highwater run {name} --variant {next(iter(file.variants))}")
        lines.append(f"           highwater compare {name}")
    return lines


def _hanging(lines: Iterable[str], indent: int, style: Style) -> list[str]:
    wrapped: list[str] = []
    for line in lines:
        wrapped += folded(line, style.width, rest=" " * indent)
    return wrapped


def _indented(text: str, columns: int, style: Style) -> list[str]:
    paragraphs = text.split("\n\n")
    lines: list[str] = []
    for paragraph in paragraphs:
        wrapped = textwrap.wrap(
            " ".join(paragraph.split()), style.width - 4 - columns, break_on_hyphens=False, break_long_words=False
        )
        lines += [*([""] if lines else []), *(" " * columns + line for line in wrapped)]
    return lines


def _events(scenario: Scenario) -> list[tuple[str, str]]:
    """Return the set-up of a scenario (brokers, topics, clients) as (label, text); the label may be empty."""
    cluster = scenario.cluster
    racks = [f"{name} in rack {rack}" for name, rack in cluster.racks.items()]
    events = [("Brokers", ", ".join(racks or cluster.brokers) + f"; controller {', '.join(cluster.controllers)}")]
    for what, phases in (("periodic checks", cluster.phases), ("heartbeats", cluster.heartbeats)):
        if phases == "random":
            events.append(("", f"{what} at random times, which depend on the seed"))
        elif phases:
            at = (f"{name} at {duration(phase_us)}" for name, phase_us in phases.items())
            events.append(("", f"first {what}: {', '.join(at)}"))
    if cluster.config:
        events.append(("", _settings(cluster.config)))
    for topic in scenario.topics.values():
        partitions = count_of(topic.partitions, "partition")
        events.append(("Topic", f"{topic.name}: {partitions}, replication factor {topic.replication_factor}"))
        events += [("", _settings(topic.config))] if topic.config else []
    for workload in scenario.workloads.values():
        config = _settings(workload.config)
        events.append(
            (
                workload.kind.capitalize(),
                f"{workload.name} on {', '.join(workload.topics)}{': ' if config else ''}{config}",
            )
        )
    return [
        *events,
        ("Run", f"{scenario.duration_us / 1e6:g} s of virtual time, {scenario.profile}, seed {scenario.seed}"),
    ]


def _settings(config: Any) -> str:
    return ", ".join(f"{key}={value}" for key, value in config.items())


def _expected(scenario: Scenario, style: Style, variant: str | None) -> list[str]:
    from scenarios.language.write import describe

    if variant is None:
        title = ["  Expected"]
    else:
        words = f"Variant {variant}: {scenario.title}"
        title = folded(words, style.width, "  ", "    ")
        title[0] = title[0].replace(variant, style.bold(variant), 1)
    return [*title, *_hanging(("    " + line for line in describe.expect_lines(scenario.expect)), 8, style)]


# --------------------------------------------------------------------------------------------------------------- check


@click.command()
@click.argument("files", nargs=-1, metavar="FILE...", shell_complete=scenario_names)
@formats("Output format (default: text); github: annotations of GitHub Actions.", "github")
@click.option("--schema", is_flag=True, help="Print the JSON Schema of scenario files, for editors.")
def check(files: tuple[str, ...], format_: str, schema: bool) -> int:
    """Report all errors in scenario FILEs without running them. The exit code is 3 if there are any."""
    if schema:
        click.echo(catalogue.SCHEMA_FILE.read_text(encoding="utf-8"), nl=False)
        return ExitCode.HELD
    if not files:
        raise click.UsageError("Name at least one file or bundled scenario.")
    checked = [_check_one(name) for name in files]
    if format_ == "json":
        click.echo(format_json([(file, diagnostics) for file, diagnostics, _ in checked]))
    elif format_ == "github":
        for _, diagnostics, _ in checked:
            if diagnostics:
                click.echo(format_github(diagnostics))
    else:
        click.echo("\n\n".join(_check_text(*item) for item in checked))
    invalid = any(diagnostic.severity == "error" for _, diagnostics, _ in checked for diagnostic in diagnostics)
    return ExitCode.INVALID_SCENARIO if invalid else ExitCode.HELD


def _check_one(name: str) -> tuple[str, tuple[Diagnostic, ...], ScenarioFile | None]:
    try:
        path = str(catalogue.find_scenario(name))
    except catalogue.UnknownScenario as unknown:
        fail(str(unknown), ExitCode.INVALID_SCENARIO)
    from scenarios.language.parse.loading import load_file

    try:
        file = load_file(path)
    except ScenarioInvalid as invalid:
        return path, invalid.diagnostics, None
    return path, file.warnings, file


def _check_text(path: str, diagnostics: tuple[Diagnostic, ...], file: ScenarioFile | None) -> str:
    if file is None:
        return format_text(path, diagnostics)
    steps = count_of(len(file.scenario.timeline), "step")
    valid = f"{path} is valid: {steps}, {count_of(len(file.variants), 'variant')}."
    if not diagnostics:
        return valid
    return format_text(path, diagnostics, "").removesuffix(count_line(path, diagnostics)) + valid


# ---------------------------------------------------------------------------------------------------------------- rules


@click.command()
@formats("Output format (default: text).", "markdown")
@plain_option
def rules(format_: str, plain: bool) -> int:
    """Show every switchable rule of replication, its value in each era of Kafka, and the scenarios that show it."""
    from scenarios.language.parse.loading import load_file
    from scenarios.language.rules_table import as_markdown, rule_rows

    rows = rule_rows(load_file(path) for path in catalogue.bundled().values())
    if format_ == "json":
        print_json({"rules": [row.as_json() for row in rows]})
    elif format_ == "markdown":
        click.echo(as_markdown(rows), nl=False)
    else:
        style = style_for_stdout(plain)
        for row in rows:
            click.echo("\n".join(_rule_lines(row, style)))
        click.echo("\n  In a scenario: `profile: kafka-2.0` or `protocol: {truncation: leader-epoch}`.")
    return ExitCode.HELD


def _rule_lines(row: RuleRow, style: Style) -> list[str]:
    eras = [period.text for period in row.periods] + [f"{value} in no profile" for value in row.in_no_profile]
    lines = ["", f"  {style.bold(row.switch)}   {row.since}"]
    lines += folded("; ".join(eras), style.width - 6, "    ", "      ")
    for contrast in row.contrasts:
        lines += folded(f"{style.sign('step')} {contrast.text}", style.width - 6, "    ", "      ")
    if not row.contrasts:
        lines.append("    no bundled scenario shows this rule")
    return lines

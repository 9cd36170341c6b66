"""`highwater rules`: which rule held in which era, and the scenario that shows the difference."""

from __future__ import annotations

import click

from scenarios.cli.common import plain_option, print_json, style_for_stdout
from scenarios.language.parse import catalogue
from scenarios.language.parse.loading import load_file
from scenarios.language.rules_table import RuleRow, as_markdown, rule_rows
from scenarios.terminal.interruption import ExitCode
from scenarios.terminal.style import Style, folded


@click.command()
@click.option(
    "--format", "format_", type=click.Choice(["text", "json", "markdown"]), default="text", help="How to print it."
)
@plain_option
def rules(format_: str, plain: bool) -> int:
    """Every switchable rule of replication: its value in each era of Kafka, and the scenarios that show it."""
    rows = rule_rows(load_file(path) for path in catalogue.bundled().values())
    if format_ == "json":
        print_json({"rules": [row.as_json() for row in rows]})
    elif format_ == "markdown":
        click.echo(as_markdown(rows), nl=False)
    else:
        style = style_for_stdout(plain)
        for row in rows:
            click.echo("\n".join(_lines(row, style)))
        click.echo("\n  A file chooses: `profile: kafka-2.0`, `protocol: {truncation: leader-epoch}`.")
    return ExitCode.HELD


def _lines(row: RuleRow, style: Style) -> list[str]:
    eras = [period.text for period in row.periods] + [f"{value} in no profile" for value in row.in_no_profile]
    lines = ["", f"  {style.bold(row.switch)}   {row.since}"]
    lines += folded("; ".join(eras), style.width - 6, "    ", "      ")
    lines += [f"    {style.sign('step')} {contrast.text}" for contrast in row.contrasts]
    if not row.contrasts:
        lines.append("    no bundled scenario shows it")
    return lines

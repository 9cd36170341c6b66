"""The sweep's page: one HTML file that opens offline, the shape of the result first, every figure in a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spark_reports.report.embedding import chart_in_html, environment, page_style, resource, vega_script
from spark_reports.report.words import joined, short_time
from spark_reports.sweep.charts import charts, interval, percent, values_of

Row = Mapping[str, Any]


def render(
    about: Mapping[str, Any],
    rows: Sequence[Row],
    axes: Sequence[tuple[str, Sequence[str]]],
    versions: str,
) -> str:
    """The whole page.

    about:  `scenario`, `title`, `question`, `seeds` in words, `overrides` in force in every run
    rows:   of `by_setting`, in order of `setting`, with the commands `losing_replay` and `unfinished_replay`
    axes:   label and values of each varied setting
    """
    figures: dict[str, dict[str, Any]] = {}
    for figure, caption, spec in charts(rows, axes):
        section = figures.setdefault(figure.name, {"name": figure.name, "title": figure.title, "charts": []})
        description = f"{figure.title}. The table on this page holds the same figures."
        section["charts"].append((caption, chart_in_html(spec, description)))
    return environment().get_template("sweep.html.j2").render(
        about=about,
        headline=headline(rows, [label for label, _ in axes]),
        mood="bad" if any(row["loss_runs"] for row in rows) else "ok",
        figures=list(figures.values()),
        labels=[label for label, _ in axes],
        rows=[{**row, "values": values_of(row)} for row in rows],
        losing=[row for row in rows if row["losing_replay"]],
        unfinished=[row for row in rows if row["unfinished_replay"]],
        percent=percent,
        short_time=short_time,
        interval=interval,
        style=page_style(),
        script=resource("page.js"),
        vega=vega_script(),
        versions=versions,
    )  # fmt: skip


def headline(rows: Sequence[Row], labels: Sequence[str]) -> str:
    """The result in one sentence. labels: of the varied settings"""
    finished = sum(row["finished"] for row in rows)
    losing = [row for row in rows if row["loss_runs"]]
    if not finished:
        return "No run was played to its end."
    unfinished = sum(row["runs"] for row in rows) - finished
    besides = f" {unfinished:,} more did not finish." if unfinished else ""
    if not losing:
        return (
            f"Nothing was lost: no acknowledged record in {finished:,} {'run' if finished == 1 else 'runs'}.{besides}"
        )
    safe = len([row for row in rows if row["finished"] and not row["loss_runs"]])
    worst = max(losing, key=lambda row: row["loss_probability"])
    share = f"{percent(worst['loss_probability'])} ({interval(worst, 'loss')})"
    named = joined([f"{label}={value}" for label, value in zip(labels, values_of(worst), strict=True)])
    if len(rows) == 1:
        return f"{share} of {finished:,} runs lost an acknowledged record.{besides}"
    others = f"{safe} of {len(rows)} settings lost nothing" if safe else "every setting lost something"
    return f"Worst with {named}: {share} of its runs lost an acknowledged record; {others}.{besides}"

"""What stands on the page of a report, and in which order: the story's tables, or changed ones, in; its text out."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_reports.report import ReportResult, page
from spark_reports.report.heading import Heading
from spark_reports.report.rows import Rows
from spark_reports.report.words import in_pieces, name_ranges
from spark_reports.results import RESULT_TABLES

pytestmark = pytest.mark.spark

Change = Callable[[str, pa.Table], pa.Table]


def with_column(rows: pa.Table, name: str, value: Any) -> pa.Table:
    field = rows.schema.field(name)
    return rows.set_column(rows.schema.get_field_index(name), field, pa.array([value] * len(rows), field.type))


def several(column: str, *values: Any) -> Change:
    """As many copies of each row as there are values."""

    def change(_table: str, rows: pa.Table) -> pa.Table:
        return (
            pa.concat_tables(with_column(rows, column, value) for value in values)
            if column in rows.schema.names
            else rows
        )

    return change


def html_of(report: ReportResult, change: Change, headings: dict[str, Heading] | None = None) -> str:
    stored = {table: pq.read_table(report.path.parent / "tables" / table) for table in RESULT_TABLES}
    return page.render({table: Rows(change(table, rows)) for table, rows in stored.items()}, "these tests", headings)


def text_of(html: str) -> str:
    visible = re.sub(r"<(script|style)\b.*?</\1>", " ", html, flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]*>", " ", visible).split())


@pytest.mark.soak
def test_of_many_partitions_an_overview_stands_before_the_story_and_the_charts(report: ReportResult) -> None:
    html = html_of(report, several("partition", 0, 1, 2, 3))
    places = [html.index(f'id="run-1-{part}"') for part in ("overview", "story", "t-0", "t-3")]
    assert places == sorted(places)
    assert "t-0, the partition with most trouble:" in text_of(html)
    alone = html_of(report, lambda _, rows: rows)
    assert 'id="run-1-overview"' not in alone and "most trouble" not in alone


@pytest.mark.soak
def test_variants_have_titles_of_their_own_and_one_question(report: ReportResult) -> None:
    def begins(*questions: str) -> str:
        titles = {name: Heading(f"Title {name}", asked) for name, asked in zip(("a", "b"), questions, strict=True)}
        return text_of(html_of(report, several("run", "a", "b"), titles)).partition("What differs")[0]

    assert begins("Can it?", "Can it?").endswith("2 runs Can it? ")
    assert begins("Can it?", "Must it?").endswith("2 runs ")


@pytest.mark.soak
def test_what_only_some_runs_have_comes_after_what_stands_beside_each_other(report: ReportResult) -> None:
    def change(table: str, rows: pa.Table) -> pa.Table:
        rows = several("run", "a", "b")(table, rows)
        return rows.filter(pa.compute.equal(rows["run"], "a")) if table == "data_at_risk" else rows

    charts = re.findall(r'<script type="application/json">(.*?)</script>', html_of(report, change))
    one, other = ([panel["title"]["text"] for panel in json.loads(chart)["vconcat"]] for chart in charts)
    assert one[: len(other)] == other and "At risk" in one[-1]


@pytest.mark.soak
def test_a_watch_claims_nothing_about_producers(report: ReportResult) -> None:
    watched = Heading("w", is_watched=True)
    run = next(iter(report.verdicts))
    text = text_of(html_of(report, lambda _, rows: rows, {run: watched}))
    told = text.partition("LEO log end offset")[0]
    assert "replication factor 3" in told and "Elections" in told
    for claim in ("Records: what was promised", "Time to the ack", "seed", "acks 1"):
        assert claim not in told and claim in text_of(html_of(report, lambda _, rows: rows))
    # Beside a run that is none, it has no value where that has one.
    both = text_of(html_of(report, several("run", "a", "b"), {"a": watched}))
    assert "acks – 1" in both and "seed – 1" in both


def test_of_many_names_the_first_are_told_and_no_name_is_counted_alone() -> None:
    apart = [f"r{place}" for place in range(0, 12, 2)]
    named = [name_ranges(apart[:count], 4) for count in (4, 5, 6)]
    assert named == ["r0, r2, r4, r6", "r0, r2, r4, r6, r8", "r0, r2, r4, r6 and 2 more"]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("At 13.736 s (10 ms) orders-1 stood still at 161.", ["13.736 s", "10 ms", "orders-1"]),
        ("b3 was in the ISR of kafka-east-1, a 5 seconds' wait", ["kafka-east-1"]),
        ("a-name-of-more-than-half-a-line stood", []),
    ],
)
def test_names_and_times_in_large_type_are_not_broken(text: str, kept: list[str]) -> None:
    assert "".join(in_pieces(text)) == text and in_pieces(text)[1::2] == kept

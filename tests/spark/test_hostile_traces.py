"""Damaged or rewritten traces: the error names a file that Spark cannot read, and readable text is never markup."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from spark_reports.queries import Questions
from spark_reports.report import write_report
from spark_reports.run_folders import RunFolderUnusable
from tests.browser import CHROMIUM, opened
from tests.hostile_names import EVIL, run_of_names
from tests.soak import one_in

pytestmark = pytest.mark.spark


def broken_pages(part: Path) -> None:
    data = part.read_bytes()
    part.write_bytes(data[:50] + b"\xff" * 100 + data[150:])


def words_for_numbers(part: Path) -> None:
    table = pq.read_table(part)
    pq.write_table(table.set_column(table.schema.get_field_index("crc"), "crc", pa.array(["x"] * len(table))), part)


@pytest.mark.usefixtures("any_length")
@pytest.mark.parametrize("damage", one_in(2, [broken_pages, words_for_numbers]))
def test_the_damaged_file_is_named(
    damage: Callable[[Path], None], spark: SparkSession, leader_kill_dir: Path, tmp_path: Path
) -> None:
    run_dir = tmp_path / "0001-with a space, ü"
    shutil.copytree(leader_kill_dir, run_dir)
    part = run_dir / "trace" / "log" / "part-00000.parquet"
    damage(part)
    said = f"{part} is damaged. Repeat the run"
    with pytest.raises(RunFolderUnusable) as refused:
        list(Questions("SELECT 1; SELECT * FROM trace_log", "q.sql").answers([run_dir], {}, 10))
    assert str(refused.value) == said
    (tmp_path / "tables").mkdir()
    with pytest.raises(RunFolderUnusable) as refused:
        write_report([run_dir], tmp_path / "out", spark=spark, tables_dir=tmp_path / "tables")
    assert str(refused.value) == said
    assert not (tmp_path / "out").exists() and list((tmp_path / "tables").iterdir()) == []


@pytest.mark.soak
def test_names_that_are_markup_stay_words_on_the_page(spark: SparkSession, tmp_path: Path) -> None:
    run_dir = run_of_names(tmp_path / "runs")
    html = write_report([run_dir], tmp_path / "out", spark=spark).path.read_text(encoding="utf-8")
    assert "r10" in html and EVIL[:15] not in html and "</script></script>" not in html
    if CHROMIUM:
        page = opened(tmp_path / "out" / "report.html", tmp_path, height=6000)
        assert (page.console, page.asked) == ([], [])
        assert "r10&lt;script&gt;alert(1)" in page.document


@pytest.mark.soak
def test_numbers_at_the_ends_of_their_range_are_drawn(
    spark: SparkSession, leader_kill_dir: Path, tmp_path: Path
) -> None:
    run_dir = tmp_path / "0001-numbers"
    shutil.copytree(leader_kill_dir, run_dir)
    for part in (run_dir / "trace").rglob("*.parquet"):
        table = pq.read_table(part)
        for column, value in (
            ("at_us", -5),
            ("offset", 2**62),
            ("high_watermark", 2**62),
            ("log_end_offset", -(2**62)),
        ):
            place = table.schema.get_field_index(column)
            if place >= 0 and len(table):
                values = [value, *table[column].to_pylist()[1:]]
                table = table.set_column(place, table.schema.field(place), pa.array(values, pa.int64()))
        pq.write_table(table, part)
    kept = {write_report([run_dir], tmp_path / "out", spark=spark).tables: [run_dir.name]}
    assert list(Questions("SELECT * FROM replica_timeline", "q.sql").answers([run_dir], kept, 10))

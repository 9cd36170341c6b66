"""`report --sql`: the user's questions are answered, and nothing else is done."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_reports.queries import QueryRefused, ask, refuse_all_but_questions, statements_of
from spark_reports.tables import COLUMN_DOCS

pytestmark = pytest.mark.spark


def test_statements_end_at_semicolons_outside_of_quotes_and_comments() -> None:
    sql = """-- first; the counts
SELECT ';' AS a, "it''s;" /* ; */ FROM records;

-- nothing here;
;
WITH x AS (SELECT 1)
SELECT `a;b` FROM x"""
    found = statements_of(sql)
    assert [(one.line, one.text.split()[0]) for one in found] == [(2, "SELECT"), (6, "WITH")]
    assert found[1].text.endswith("SELECT `a;b` FROM x")


@pytest.mark.parametrize(
    "sql",
    [
        "DROP VIEW records",
        "INSERT OVERWRITE DIRECTORY '/tmp/x' USING parquet SELECT 1",
        "FROM records INSERT OVERWRITE DIRECTORY '/tmp/x' USING parquet SELECT record",
        "WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x",
        "SET spark.sql.shuffle.partitions = 1",
        "EXECUTE IMMEDIATE 'DROP VIEW records'",
        "SELECT TRANSFORM(record) USING 'touch x' AS (a) FROM records",
        "SELECT `reflect`('java.lang.System', 'getProperty', 'user.home')",
        "/* SELECT */ ADD JAR 'http://example.org/x.jar'",
    ],
)
def test_what_is_no_question_is_refused(sql: str) -> None:
    with pytest.raises(QueryRefused, match=r"^q\.sql:1: .* is not let run"):
        refuse_all_but_questions(statements_of(sql)[0], "q.sql")


def test_words_in_quotes_and_functions_of_that_name_are_no_commands() -> None:
    sql = "(SELECT 'insert into', transform(array(1), x -> x + 1) FROM records JOIN runs USING (run))"
    refuse_all_but_questions(statements_of(sql)[0], "q.sql")


def test_answers_and_the_place_of_a_mistake(spark: SparkSession, leader_kill_dir: Path) -> None:
    good = "SELECT record FROM records WHERE lost ORDER BY record; SELECT count(*) AS n FROM trace_control"
    lost, counted = ask(spark, [leader_kill_dir], good, "q.sql", rows_max=1)
    assert (lost.columns, lost.rows, lost.more) == (["record"], [["r3"]], True)
    assert counted.rows[0][0] > 20 and not counted.more
    with pytest.raises(QueryRefused, match=r"^q\.sql:3: .*`reccord` cannot be resolved\. Did you mean"):
        list(ask(spark, [leader_kill_dir], "SELECT 1;\n\nSELECT reccord FROM records", "q.sql"))
    with pytest.raises(
        QueryRefused, match=r"^q\.sql:1: .*`lost_record` cannot be found\. Did you mean `lost_records`\?$"
    ):
        list(ask(spark, [leader_kill_dir], "SELECT * FROM lost_record", "q.sql"))
    with pytest.raises(QueryRefused, match=r"^q\.sql: there is no statement"):
        list(ask(spark, [leader_kill_dir], "-- nothing", "q.sql"))


def test_every_column_says_what_it_is(spark: SparkSession, leader_kill_dir: Path) -> None:
    """Also those that are computed, whatever the columns say that they are computed from."""
    names = ("ack_latency", "lost_records", "isr_intervals", "trace_control", "trace_group")
    described = list(ask(spark, [leader_kill_dir], "; ".join(f"DESCRIBE {name}" for name in names), "q.sql"))
    for name, answer in zip(names, described, strict=True):
        assert answer.columns == ["col_name", "data_type", "comment"]
        assert [column for column, _, comment in answer.rows if not comment] == [], name
    comments = {column: comment for answer in described[:3] for column, _, comment in answer.rows}
    assert comments["p50_us"] == "median" and comments == {name: COLUMN_DOCS[name] for name in comments}

"""`report --sql`: the user's questions are answered, and nothing else is done.

Refusals need Spark's parser and analyzer only; no job runs for them.
"""

from __future__ import annotations

import http.server
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from scenarios.language.parse.catalogue import find_scenario
from scenarios.language.parse.loading import load_file
from scenarios.run.runner import run_scenario
from spark_reports import tables
from spark_reports.admission import NotAdmitted, admit_analysed, tables_read_by
from spark_reports.admitted import FUNCTIONS, TABLE_FUNCTIONS
from spark_reports.queries import TABLES, QueryRefused, ask
from spark_reports.results import COLUMNS, RESULT_TABLES
from spark_reports.session import SparkFailed
from spark_reports.statements import statements_of

pytestmark = pytest.mark.spark


def test_statements_end_at_semicolons_outside_of_quotes_and_comments(spark: SparkSession) -> None:
    sql = """-- first; the counts
SELECT ';' AS a, "it''s;", r'\\' /* ; /* ; */ ; */ FROM records;

-- nothing here;
;
WITH x AS (SELECT 1)
SELECT `a;b` -- x;
FROM x"""
    found = statements_of(spark._jvm, sql)
    assert [(one.line, one.text.split()[0]) for one in found] == [(2, "SELECT"), (6, "WITH")]
    assert found[0].text.endswith("FROM records") and found[1].text.endswith("FROM x")


# By its content: the statement, and the text of the refusal. {file} is a file to be read, {out} one to be made.
REFUSED = {
    "a program": ("SELECT TRANSFORM(a) USING r'echo x > {out}; cat' AS (b) FROM VALUES (1) AS t(a)", "TRANSFORM"),
    "a program in a subquery": (
        "SELECT * FROM (SELECT TRANSFORM(a) USING 'tee {out}' FROM VALUES (1) AS t(a))",
        "TRANSFORM",
    ),
    "a program by MAP": ("FROM (SELECT 1 AS a) MAP a USING 'tee {out}' AS (b)", "TRANSFORM"),
    "a program by REDUCE": ("FROM (SELECT 1 AS a) REDUCE a USING 'tee {out}' AS (b)", "TRANSFORM"),
    "a program in WITH": (
        "WITH x AS (SELECT TRANSFORM(1) USING 'tee {out}' AS (a) FROM VALUES (1)) SELECT * FROM x",
        "TRANSFORM",
    ),
    "a program in EXISTS": (
        "SELECT 1 WHERE EXISTS (SELECT TRANSFORM(1) USING 'tee {out}' AS (a) FROM VALUES (1))",
        "TRANSFORM",
    ),
    "Java": ("SELECT reflect('java.io.File', 'new', '{out}')", "the function `reflect`"),
    "Java in backticks": ("SELECT `reflect`('java.lang.System', 'getProperty', 'user.home')", "the function `reflect`"),
    "Java by its full name": ("SELECT system.builtin.reflect('a', 'b')", "the function `system.builtin.reflect`"),
    "Java in capitals": ("SELECT JAVA_METHOD('java.util.UUID', 'randomUUID')", "the function `JAVA_METHOD`"),
    "Java, tried": ("SELECT try_reflect('java.util.UUID', 'randomUUID')", "the function `try_reflect`"),
    "Java behind IDENTIFIER": ("SELECT IDENTIFIER('refl' || 'ect')('java.util.UUID', 'randomUUID')", "IDENTIFIER(...)"),
    "Java behind a raw string": (
        r"SELECT r'\', reflect('java.util.UUID', 'randomUUID'), r'\'",
        "the function `reflect`",
    ),
    "Java behind a nested comment": (
        "SELECT /* /* */ ' */ reflect('java.util.UUID', 'randomUUID') /* ' */",
        "the function `reflect`",
    ),
    "Java in a lambda function": (
        "SELECT transform(array('a'), x -> reflect('java.util.UUID', 'fromString', x))",
        "the function `reflect`",
    ),
    "Java in VALUES": ("VALUES (reflect('java.util.UUID', 'randomUUID'))", "the function `reflect`"),
    "Java in a FILTER": (
        "SELECT count(*) FILTER (WHERE reflect('a', 'b') = '') FROM records",
        "the function `reflect`",
    ),
    "Java in a window": (
        "SELECT row_number() OVER w FROM records WINDOW w AS (ORDER BY reflect('a', 'b'))",
        "the function `reflect`",
    ),
    "Java in LIMIT": ("SELECT 1 LIMIT length(reflect('a', 'b'))", "the function `reflect`"),
    "Java in a hint": ("SELECT /*+ REPARTITION(reflect('a', 'b')) */ 1", None),
    "Java in a lateral join": (
        "SELECT * FROM records, LATERAL (SELECT reflect('a', record))",
        "the function `reflect`",
    ),
    "Java after a pipe": ("FROM records |> EXTEND reflect('a', record) AS b", "the function `reflect`"),
    "Java in a PIVOT": (
        "SELECT * FROM records PIVOT (max(reflect('a', record)) FOR lost IN (true))",
        "the function `reflect`",
    ),
    "Java in GROUPING SETS": (
        "SELECT 1 FROM records GROUP BY GROUPING SETS ((reflect('a', record)))",
        "the function `reflect`",
    ),
    "a file by its path": ("SELECT * FROM text.`{file}`", "`text.{file}` is no table"),
    "a file behind IDENTIFIER": ("SELECT * FROM IDENTIFIER('text.`{file}`')", "`text.{file}` is no table"),
    "a file behind a folded IDENTIFIER": ("SELECT * FROM IDENTIFIER('text.' || '`{file}`')", None),
    "a file in an IN": ("SELECT 1 WHERE 'x' IN (SELECT value FROM text.`{file}`)", "`text.{file}` is no table"),
    "a file by TABLE": ("TABLE csv.`{file}`", "`csv.{file}` is no table"),
    "a file in an unused WITH": ("WITH x AS (TABLE text.`{file}`) SELECT 1", "`text.{file}` is no table"),
    "a file with options": ("SELECT * FROM records WITH (path = '{file}')", "WITH options"),
    "a file by a function": ("SELECT * FROM read_files('{file}')", "the function `read_files`"),
    "a file as binary": ("SELECT * FROM binaryFile.`{file}`", "`binaryFile.{file}` is no table"),
    "a stream": ("SELECT * FROM STREAM records", "STREAM is not let run"),
    "a time travel": ("SELECT * FROM records VERSION AS OF 1", "RelationTimeTravel"),
    "a table function on a table": ("SELECT * FROM f(TABLE(records))", "the function `f`"),
    "the name of a file": ("SELECT input_file_name() FROM trace_control", "the function `input_file_name`"),
    "the user": ("SELECT current_user() FROM runs", "the function `current_user`"),
    "the user without brackets": ("SELECT current_user FROM runs", "CurrentUser is not let run"),
    "an XML document": ("SELECT xpath_string('<a/>', 'a')", "the function `xpath_string`"),
    "a descriptor file": ("SELECT from_protobuf(x'00', 'M', '{file}')", "the function `from_protobuf`"),
    "Avro": ("""SELECT from_avro(x'00', '"int"')""", "the function `from_avro`"),
    "INSERT into a folder": ("INSERT OVERWRITE DIRECTORY '{out}' USING parquet SELECT 1", "is not let run"),
    "FROM ... INSERT": (
        "FROM records INSERT OVERWRITE DIRECTORY '{out}' USING parquet SELECT record",
        "is not let run",
    ),
    "two INSERTs": ("FROM records INSERT INTO a SELECT record INSERT INTO b SELECT record", "is not let run"),
    "WITH ... INSERT": ("WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x", "is not let run"),
    "DELETE": ("DELETE FROM records", "is not let run"),
    "UPDATE": ("UPDATE records SET lost = false", "is not let run"),
    "MERGE": ("MERGE INTO records r USING runs s ON r.run = s.run WHEN MATCHED THEN DELETE", "is not let run"),
    "CREATE TABLE": ("CREATE TABLE t USING parquet LOCATION '{out}' AS SELECT 1 AS a", "is not let run"),
    "CREATE VIEW": ("CREATE OR REPLACE TEMP VIEW records AS SELECT 1 AS a", "is not let run"),
    "CREATE VIEW of a file": ("CREATE TEMP VIEW t USING text OPTIONS (path '{file}')", "is not let run"),
    "CREATE FUNCTION": ("CREATE TEMPORARY FUNCTION abs AS 'org.example.Evil' USING JAR '{file}'", "is not let run"),
    "CREATE SQL FUNCTION": ("CREATE TEMPORARY FUNCTION abs(x INT) RETURNS INT RETURN 1", "is not let run"),
    "DROP": ("DROP VIEW records", "is not let run"),
    "a setting": ("SET spark.sql.variable.substitute = true", "SetCommand is not let run"),
    "a setting read": ("SET -v", "SetCommand is not let run"),
    "RESET": ("RESET", "is not let run"),
    "ADD JAR": ("/* SELECT */ ADD JAR 'http://127.0.0.1:{port}/x.jar'", "AddJarsCommand is not let run"),
    "ADD FILE": ("ADD FILE 'http://127.0.0.1:{port}/x'", "is not let run"),
    "LIST FILES": ("LIST FILES", "is not let run"),
    "CACHE": ("CACHE TABLE x AS SELECT 1", "is not let run"),
    "UNCACHE": ("CLEAR CACHE", "is not let run"),
    "ANALYZE": ("ANALYZE TABLE records COMPUTE STATISTICS", "is not let run"),
    "LOAD DATA": ("LOAD DATA LOCAL INPATH '{file}' INTO TABLE records", "is not let run"),
    "EXPLAIN": ("EXPLAIN SELECT * FROM text.`{file}`", "ExplainCommand is not let run"),
    "DESCRIBE of a file": ("DESCRIBE text.`{file}`", "`text.{file}` is no table"),
    "DESCRIBE of a query": ("DESCRIBE QUERY SELECT * FROM text.`{file}`", "is not let run"),
    "DESCRIBE of a function": ("DESCRIBE FUNCTION reflect", "is not let run"),
    "DESCRIBE of internals": ("DESCRIBE EXTENDED records", "is not let run"),
    "SHOW TABLES elsewhere": ("SHOW TABLES IN global_temp", "is not let run"),
    "SHOW CREATE": ("SHOW CREATE TABLE records", "is not let run"),
    "SHOW FUNCTIONS": ("SHOW FUNCTIONS", "is not let run"),
    "USE": ("USE global_temp", "is not let run"),
    "EXECUTE IMMEDIATE": ("EXECUTE IMMEDIATE 'DROP VIEW records'", "is not let run"),
    "DECLARE": ("DECLARE VARIABLE x INT DEFAULT 1", "is not let run"),
    "SET VARIABLE": ("SET VARIABLE x = (SELECT 1)", "is not let run"),
    "a script": ("BEGIN SELECT 1; END", "is not let run"),
    "a script of commands": ("BEGIN DECLARE x INT; SET x = 1; DROP VIEW records; END", "is not let run"),
    "a parameter": ("SELECT * FROM records WHERE record = :name", "NamedParameter is not let run"),
    "CALL": ("CALL system.f()", "is not let run"),
    "another catalog": ("SELECT * FROM spark_catalog.default.records", "is no table"),
    "a global view": ("SELECT * FROM global_temp.records", "is no table"),
}


@pytest.fixture(scope="module")
def asked_for() -> Iterator[tuple[int, list[str]]]:
    """A server on the loopback: its port, and the requested paths."""
    paths: list[str] = []

    class Noting(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_error(404)

        def log_message(self, *told: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Noting)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port, paths
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_no_question_is_refused(
    what: str, spark: SparkSession, leader_kill_dir: Path, tmp_path: Path, asked_for: tuple[int, list[str]]
) -> None:
    port, paths = asked_for
    secret, out = tmp_path / "secret", tmp_path / "out"
    secret.write_text("secret", encoding="utf-8")
    text, why = REFUSED[what]
    sql = text.format(file=secret, out=out, port=port)
    views = spark.catalog.listTables()
    with pytest.raises(QueryRefused) as refused:
        list(ask(spark, [leader_kill_dir], f"-- what it asks\n{sql}", "q.sql", 10))
    message = str(refused.value)
    assert re.match(r"q\.sql:2: `.*` ?", message) and message.count("\n") == 0
    assert "is no table" in message or "not let run" in message
    assert why is None or why.format(file=secret) in message
    assert sorted(path.name for path in tmp_path.iterdir()) == ["secret"] and secret.read_text() == "secret"
    assert paths == [] and spark.catalog.listTables() == views


def test_a_refused_statement_keeps_those_before_it_from_being_run(spark: SparkSession, leader_kill_dir: Path) -> None:
    answers = ask(spark, [leader_kill_dir], "SELECT 1;\nSELECT 2,\n  reflect('a', 'b');", "q.sql", 10)
    with pytest.raises(QueryRefused, match=r"^q\.sql:3: `SELECT 2, reflect\('a', 'b'\)`: the function `reflect`"):
        next(answers)


def test_what_names_turn_out_to_be_is_looked_at_again(spark: SparkSession, leader_kill_dir: Path) -> None:
    """The second look alone keeps out what the first does not see; here it is called without the first."""
    state = spark._jsparkSession.sessionState()
    skip = spark._jvm.org.apache.spark.sql.execution.CommandExecutionMode.SKIP()
    path = next((leader_kill_dir / "trace" / "control").iterdir())
    for sql, what in {
        f"SELECT * FROM parquet.`{path}`": "LogicalRelation",
        "SELECT IDENTIFIER('refl' || 'ect')('java.util.UUID', 'randomUUID')": "CallMethodViaReflection",
        "SELECT 1 WHERE EXISTS (SELECT input_file_name())": "InputFileName",
        "SELECT transform(array(1), x -> uuid())": "Uuid",
        "SET a = b": "SetCommand",
    }.items():
        plan = state.executePlan(state.sqlParser().parsePlan(sql), skip).analyzed()
        with pytest.raises(NotAdmitted, match=f"^{what} is not let run"):
            admit_analysed(plan, TABLES)


def test_no_variable_of_the_environment_is_read(
    spark: SparkSession, leader_kill_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (answer,) = ask(spark, [leader_kill_dir], "SELECT '${env:PATH}', '${system:user.home}'", "q.sql", 10)
    assert answer.rows == [["${env:PATH}", "${system:user.home}"]]


@pytest.mark.soak
def test_every_admitted_function_is_answered(spark: SparkSession) -> None:
    """Each with its examples from Spark's own documentation: the lists of functions and of classes agree."""
    state = spark._jsparkSession.sessionState()
    skip = spark._jvm.org.apache.spark.sql.execution.CommandExecutionMode.SKIP()
    name_of = spark._jvm.org.apache.spark.sql.catalyst.FunctionIdentifier
    asked: set[str] = set()
    for name in sorted(FUNCTIONS | TABLE_FUNCTIONS):
        examples = state.catalog().lookupFunctionInfo(name_of(name)).getExamples()
        for example in re.findall(r"^\s*> (SELECT .*?);\s*$", examples, re.MULTILINE | re.DOTALL)[:2]:
            if "TIME'" in example.upper().replace("TIME '", "TIME'") or "(9)" in example:
                continue  # types that Spark has not switched on
            plan = state.sqlParser().parsePlan(example)
            assert tables_read_by(plan, TABLES) == []
            admit_analysed(state.executePlan(plan, skip).analyzed(), TABLES)
            asked.add(name)
    assert len(asked) > 0.9 * len(FUNCTIONS)


QUESTIONS = """
SELECT client, count(*) n, sum(CASE WHEN lost THEN 1 ELSE 0 END) FROM records GROUP BY client HAVING n > 1 ORDER BY n
SELECT client, lost, grouping(client), count(*) FROM records GROUP BY ROLLUP(client, lost)
SELECT count(*) FILTER (WHERE lost), count(DISTINCT client), percentile(latency_us, array(0.5, 0.99)) FROM records
SELECT a.record FROM records a LEFT JOIN runs b USING (run) WHERE b.scenario IS NULL
SELECT a.record FROM records a LEFT ANTI JOIN runs b ON a.run <=> b.run
SELECT record FROM records WHERE run IN (SELECT run FROM runs) AND record NOT LIKE 'x%' OR sent_us IS NULL
SELECT record, (SELECT max(at_us) FROM trace_control) - sent_us AS m FROM records TABLESAMPLE (5 ROWS)
WITH x AS (SELECT * FROM Records), y(run, n) AS (SELECT run, count(*) FROM x GROUP BY 1) SELECT * FROM y NATURAL JOIN x
WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 5) SELECT * FROM t
(SELECT run FROM records MINUS SELECT run FROM runs) UNION ALL (TABLE runs |> SELECT run) ORDER BY 1 LIMIT 3
FROM records |> WHERE lost |> AGGREGATE count(*) AS n GROUP BY client |> ORDER BY n
SELECT a, x FROM VALUES (1, array(1, 2)), (2, array()) AS t(a, b) LATERAL VIEW OUTER explode(b) e AS x
SELECT isr[0], size(isr), transform(isr, x -> upper(x)), exists(isr, x -> x = 'b1') FROM trace_control
SELECT record, w.at FROM records, LATERAL (SELECT max(at_us) at FROM trace_log t WHERE t.at_us <= sent_us) w
SELECT lag(sent_us) OVER w, last_value(latency_us) IGNORE NULLS OVER w FROM records WINDOW w AS (ORDER BY sent_us)
SELECT sum(copies) OVER (ORDER BY sent_us ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) FROM records
SELECT * FROM (SELECT client, told FROM records) PIVOT (count(*) FOR told IN ('acked', 'failed'))
SELECT * FROM (SELECT run, sent_us, acked_us FROM records) UNPIVOT (n FOR what IN (sent_us, acked_us))
SELECT /*+ BROADCAST(b) */ a.record FROM records a JOIN runs b USING (run)
SELECT from_json('{"a": 1}', 'a INT').a, to_json(struct(1)), map('k', named_struct('a', 1))['k'].a, CAST('1' AS INT)
SELECT * EXCEPT (run) FROM records QUALIFY row_number() OVER (PARTITION BY client ORDER BY sent_us) = 1
SELECT date_format(timestamp_micros(at_us), 'mm:ss'), at_us DIV 1000, at_us / 1e6, 'a' || event FROM trace_control
DESC TABLE runs
SHOW TABLES LIKE 'trace*'
"""


@pytest.mark.soak
def test_questions_are_answered(spark: SparkSession, leader_kill_dir: Path) -> None:
    """All usual SQL is admitted, by both looks; the first of them is run."""
    answers = ask(spark, [leader_kill_dir], QUESTIONS.strip().replace("\n", ";\n"), "q.sql", 10)
    assert next(answers).columns[:2] == ["client", "n"]


def test_answers_and_the_place_of_a_mistake(spark: SparkSession, leader_kill_dir: Path) -> None:
    good = "SELECT record FROM records WHERE lost ORDER BY record; SELECT count(*) AS n FROM trace_control"
    lost, counted = ask(spark, [leader_kill_dir], good, "q.sql", rows_max=1)
    assert (lost.columns, lost.rows, lost.more) == (["record"], [["r3"]], True)
    assert counted.rows[0][0] > 20 and not counted.more
    with pytest.raises(QueryRefused, match=r"^q\.sql:3: .*`reccord` cannot be resolved\. Did you mean"):
        list(ask(spark, [leader_kill_dir], "SELECT 1;\n\nSELECT reccord FROM records", "q.sql", 10))
    with pytest.raises(QueryRefused, match=r"^q\.sql:2: .*`lost_record` is no table .* Did you mean `lost_records`\?$"):
        list(ask(spark, [leader_kill_dir], "SELECT *\nFROM lost_record", "q.sql", 10))
    with pytest.raises(QueryRefused, match=r"^q\.sql: there is no statement"):
        list(ask(spark, [leader_kill_dir], "-- nothing", "q.sql", 10))


def test_a_question_of_any_size_has_a_bounded_answer(spark: SparkSession, leader_kill_dir: Path) -> None:
    (answer,) = ask(spark, [leader_kill_dir], "SELECT id FROM range(1000000000000000000)", "q.sql", rows_max=3)
    assert answer.rows == [[0], [1], [2]] and answer.more
    with pytest.raises(
        SparkFailed, match=r"^q\.sql:1: `SELECT repeat\('x', 2000000000\)` took more memory than Spark has"
    ):
        list(ask(spark, [leader_kill_dir], "SELECT repeat('x', 2000000000)", "q.sql", 10))


def test_every_column_says_what_it_is(spark: SparkSession, leader_kill_dir: Path) -> None:
    """Computed columns have their own descriptions, too, not those of their source columns."""
    names = ("ack_latency", "lost_records", "isr_intervals", "trace_control", "trace_group")
    described = list(ask(spark, [leader_kill_dir], "; ".join(f"DESCRIBE {name}" for name in names), "q.sql", 100))
    for name, answer in zip(names, described, strict=True):
        assert answer.columns == ["col_name", "data_type", "comment"]
        assert [column for column, _, comment in answer.rows if not comment] == [], name
    comments = {column: comment for answer in described[:3] for column, _, comment in answer.rows}
    assert comments["p50_us"] == "median" and comments == {name: COLUMNS[name].doc for name in comments}


def test_all_tables_are_shown(spark: SparkSession, leader_kill_dir: Path) -> None:
    (answer,) = ask(spark, [leader_kill_dir], "SHOW TABLES", "q.sql", 100)
    assert sorted(row[1] for row in answer.rows) == sorted(TABLES)


def test_each_table_is_defined_in_one_way() -> None:
    assert sorted([*tables._DEFINITIONS, *tables._OF_PARTITIONS]) == sorted(RESULT_TABLES)


def test_a_statement_stands_on_the_command_line(tmp_path: Path) -> None:
    run_scenario(load_file(find_scenario("acks1-leader-kill")).scenario, runs_dir=tmp_path / "runs", keep_logs=False)
    right, wrong = "SELECT count(*) AS lost FROM lost_records", "SELECT 1 AS one;\nSELECT reccord FROM records"
    words = [sys.executable, "-m", "scenarios.cli", "report", "last", "--format", "json", "--sql"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    answered, refused = (
        subprocess.run([*words, sql], capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=300)
        for sql in (right, wrong)
    )
    assert answered.returncode == 0, answered.stderr
    assert json.loads(answered.stdout) == [{"sql": right, "columns": ["lost"], "rows": [[5]], "more": False}]
    assert (refused.returncode, refused.stdout) == (2, "")
    assert re.search(r"^error: --sql:2: .*`reccord` cannot be resolved\. Did you mean", refused.stderr, re.MULTILINE)

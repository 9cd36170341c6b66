"""Spark's settings, and its JVM's: for all sessions, for short traces, for reports. They were measured."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from spark_reports.run_folders import trace_bytes

JAVA_OPTIONS = "spark.driver.extraJavaOptions"

_JVM_OPTIONS = (
    "-XX:+UseSerialGC -XX:-UsePerfData -XX:MetaspaceSize=256m "
    "-XX:+UnlockExperimentalVMOptions -XX:SymbolTableSize=400009"
)
"""MetaspaceSize: from 21 MB of classes on, each further half of that has the whole heap searched; Spark has 120 MB.
SymbolTableSize: for the names in Spark's classes. The JVM's own has 32,768 lists, which get eight names long before it
makes more of them, and every class that is loaded looks up hundreds of names."""

_COMPILED_LESS = (
    "-XX:Tier4InvocationThreshold=100000 -XX:Tier4MinInvocationThreshold=12000 -XX:Tier4CompileThreshold=300000 "
    "-XX:Tier4BackEdgeThreshold=800000 -XX:MaxInlineLevel=9 -XX:InlineSmallCode=1200 -XX:FreqInlineSize=200"
)
"""For Java's thorough compiler. Thresholds twenty times its own: a report runs most of Spark's code some thousand
times, and code that meets every event reaches these, too. And half as much inlining, which tasks do not miss."""

_COMPILED_SOON = (
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m "
    "-XX:Tier3InvocationThreshold=100 -XX:Tier3MinInvocationThreshold=50 -XX:Tier3CompileThreshold=1000"
)
"""By Java's quick compiler, after half the calls that it waits for: it has as much work, and less is interpreted. It is
given 48 MB for code: one report fills that, and nothing is compiled from then on."""

DEFAULTS: dict[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # 200, Spark's own number, cost three seconds a query.
    "spark.sql.shuffle.partitions": "2",
    # The least memory of every sort, hash table and broadcast: 64 MiB each with a heap of 4 GiB, if Spark may choose.
    "spark.buffer.pageSize": "1m",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    # The rows of a broadcast may have to be found in the whole trace first. On a busy machine that took more than the
    # five minutes after which Spark gives up.
    "spark.sql.broadcastTimeout": "-1",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Else every F.col, select and join sends the JVM the line of Python it stands in: a third of defining tables.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    JAVA_OPTIONS: f"{_JVM_OPTIONS} {_COMPILED_LESS}",
}

COMPILED_SOON: dict[str, str] = {JAVA_OPTIONS: f"{_JVM_OPTIONS} {_COMPILED_SOON}"}
"""For a report: its tables are folded from the files by Python, so the JVM meets few rows and has much to plan."""

SMALL_TRACE_SETTINGS: dict[str, str] = {
    **COMPILED_SOON,
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Each broadcast is a separate job; where all is in one partition a join needs none.
    "spark.sql.optimizer.disableHints": "true",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}
"""For traces read in no time: compiling queries, in Spark and in the JVM, would take longer than running them."""

# About 200,000 events: from there on compiled queries win, even with the time it takes to compile them.
_SMALL_TRACE_BYTES = 2 << 20
# Compressed, as the trace is: a task then sorts or folds some hundred megabytes at most.
_PARTITION_BYTES = 8 << 20


def are_small(run_dirs: Sequence[Path]) -> bool:
    """Whether these traces together are small enough for SMALL_TRACE_SETTINGS."""
    return trace_bytes(run_dirs) < _SMALL_TRACE_BYTES


def settings_for(run_dirs: Sequence[Path]) -> dict[str, str]:
    """Spark settings that suit the size of these traces, for callers that start the session early."""
    if are_small(run_dirs):
        return SMALL_TRACE_SETTINGS
    return {"spark.sql.shuffle.partitions": str(max(2, trace_bytes(run_dirs) // _PARTITION_BYTES))}


def report_settings_for(run_dirs: Sequence[Path]) -> dict[str, str]:
    """The same for a session of reports alone."""
    return {**settings_for(run_dirs), **COMPILED_SOON}


def driver_memory_mb() -> int:
    """A quarter of the machine, between 1 and 4 GiB: a 10 M event trace does with 1, and is done sooner with more."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1024, min(4096, physical // 4 >> 20))

"""Settings of Spark and its JVM for all sessions, for short traces and for reports, chosen by measurements."""

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
"""Options of the JVM.

MetaspaceSize: size of loaded classes at which a garbage collection runs. The default is 21 MB, and Spark has 120 MB.
SymbolTableSize: size of the hash table of names in classes. Each loaded class looks up hundreds of names, and the
default of 32,768 buckets becomes slow long before the JVM enlarges the table.
"""

_COMPILED_LESS = (
    "-XX:Tier4InvocationThreshold=100000 -XX:Tier4MinInvocationThreshold=12000 -XX:Tier4CompileThreshold=300000 "
    "-XX:Tier4BackEdgeThreshold=800000 -XX:MaxInlineLevel=9 -XX:InlineSmallCode=1200 -XX:FreqInlineSize=200"
)
"""Options to optimize less code: thresholds of Java's optimizing compiler at twenty times the defaults, less inlining.

A report runs most of Spark's code only some thousand times. Code that handles every event still reaches the thresholds.
"""

_COMPILED_SOON = (
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m "
    "-XX:Tier3InvocationThreshold=100 -XX:Tier3MinInvocationThreshold=50 -XX:Tier3CompileThreshold=1000"
)
"""Options to compile code only with Java's quick compiler, after half the usual number of calls.

This takes the same compile time, and less code is interpreted. With the default code cache of 48 MB, no more code would
be compiled after one report.
"""

DEFAULTS: dict[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # 200, Spark's default, costs three seconds a query.
    "spark.sql.shuffle.partitions": "2",
    # Each sort, hash table and broadcast takes at least this memory. Spark's default is 64 MiB with a heap of 4 GiB.
    "spark.buffer.pageSize": "1m",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    # The rows of a broadcast may come from the whole trace. On a busy machine that took longer than Spark's limit of
    # five minutes.
    "spark.sql.broadcastTimeout": "-1",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # If enabled, each F.col, select and join sends its Python line to the JVM, a third of the time to define tables.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    JAVA_OPTIONS: f"{_JVM_OPTIONS} {_COMPILED_LESS}",
}

COMPILED_SOON: dict[str, str] = {JAVA_OPTIONS: f"{_JVM_OPTIONS} {_COMPILED_SOON}"}
"""Settings for a report, in which the JVM handles many plans and few rows, since Python folds the large tables."""

SMALL_TRACE_SETTINGS: dict[str, str] = {
    **COMPILED_SOON,
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Each broadcast is a separate job, and joins need none if all rows are in one partition.
    "spark.sql.optimizer.disableHints": "true",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}
"""Settings for short traces, without compilation by Spark: it would take longer than running the queries."""

# About 200,000 events. For longer traces compiled queries are faster, including the time to compile them.
_SMALL_TRACE_BYTES = 2 << 20
# Compressed size of the trace for each task: it then sorts or folds at most some hundred megabytes.
_PARTITION_BYTES = 8 << 20


def are_small(run_dirs: Sequence[Path]) -> bool:
    """Return True if these traces together are small enough for SMALL_TRACE_SETTINGS."""
    return trace_bytes(run_dirs) < _SMALL_TRACE_BYTES


def settings_for(run_dirs: Sequence[Path]) -> dict[str, str]:
    """Return Spark settings that suit the total size of these traces."""
    if are_small(run_dirs):
        return SMALL_TRACE_SETTINGS
    return {"spark.sql.shuffle.partitions": str(max(2, trace_bytes(run_dirs) // _PARTITION_BYTES))}


def report_settings_for(run_dirs: Sequence[Path]) -> dict[str, str]:
    """Return Spark settings for a session that only makes a report about these traces."""
    return {**settings_for(run_dirs), **COMPILED_SOON}


def driver_memory_mb() -> int:
    """Return the driver's memory in MiB: a quarter of the machine's memory, but at least 1024 and at most 4096.

    A trace of 10 million events needs 1 GiB and is processed faster with more.
    """
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1024, min(4096, physical // 4 >> 20))

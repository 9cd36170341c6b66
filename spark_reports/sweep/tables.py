"""Compute the results of a sweep for each setting: probabilities with intervals, times, and seeds to replay."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

from spark_reports.sweep.rows import CRASHED, FATES, FINISHED, RAISED, TIMEOUT, rows_schema

Z_95 = 1.959963984540054
"""Quantile of the normal distribution for a two-sided interval of 95 %."""

SHARES: dict[str, str] = {
    "loss": "lost",
    "unreadable": "unseen",
    "missing": "missing",
    "duplicates": "duplicated",
    "unavailability": "unavailable_us",
}
"""Shares of finished runs: name of the share, and the column of rows that is above zero in such runs."""
PERCENTILES = {"p50": 50, "p90": 90, "p99": 99, "max": 100}

DOCS: dict[str, str] = {
    "setting": "number of the setting, from 0, in the order of the command line",
    "settings": "the varied settings, each as path=value",
    "runs": "runs that have a row",
    "finished": "runs that were played to the end; shares and times are of these runs",
    "our_bugs": "runs in which an invariant was broken that the rules promise",
    "crashed": "runs that ended with an error of the simulator, or whose process died",
    "timeouts": "runs that exceeded the time limit",
    "verdicts": "names of the anomalies in these runs",
    "held": "runs in which the scenario's own expectations held",
    **{
        f"{name}_{part}": text.format(column=column)
        for name, column in SHARES.items()
        for part, text in (
            ("runs", "finished runs with `{column}` above zero"),
            ("probability", "their share of the finished runs"),
            ("low", "lower end of the 95 % Wilson interval of that share"),
            ("high", "upper end of the 95 % Wilson interval of that share"),
        )
    },
    "endings": "number of different results (verdict, and counts of records by fate)",
    "lost_records": "lost acked records of all runs",
    "unseen_records": "acked records of all runs that are in the log, but that no consumer can read",
    "missing_records": "records of all runs that are missing, but were not acked",
    "duplicated_records": "records of all runs that are in the log more than once",
    "unavailable_mean_us": "mean time per run in which records waited in vain for an ack, by intervals of 1 s or more",
    "unavailable_max_us": "this time in the worst run",
    "smallest_losing_seed": "the smallest seed that loses an acked record",
    "smallest_unfinished_seed": "the smallest seed whose run did not finish, or broke a promised invariant",
    "unfinished_why": "what happened in the run with that seed",
    **{
        f"ack_{name}_us": f"{name} (nearest rank) of the time from send to ack, over the acks of all runs"
        for name in PERCENTILES
    },
}


def read_rows(spark: SparkSession, rows_dir: Path) -> DataFrame:
    return spark.read.schema(rows_schema()).option("pathGlobFilter", "part-*.parquet").parquet(str(rows_dir.resolve()))


def by_setting(rows: DataFrame, settings: Sequence[tuple[str, ...]], seeds: range) -> DataFrame:
    """Return one row for each combination of settings, even without runs, in any order, with the columns of DOCS.

    Rows of other settings or seeds are ignored.
    """
    seed = F.col("seed")
    asked = rows.filter(seed.between(seeds.start, seeds.stop - 1)).select("*", F.lit(True).alias("played"))
    joined = _grid(rows.sparkSession, settings).join(asked, "settings", "left")
    finished = F.col("status") == FINISHED
    wrong = F.col("played") & (~finished | F.col("our_bug"))
    counts = joined.groupBy("setting", "settings").agg(
        F.count("played").alias("runs"),
        F.count_if(finished).alias("finished"),
        F.count_if(F.col("our_bug")).alias("our_bugs"),
        F.count_if(F.col("status").isin(CRASHED, RAISED)).alias("crashed"),
        F.count_if(F.col("status") == TIMEOUT).alias("timeouts"),
        F.count_if(F.col("held")).alias("held"),
        F.array_sort(F.array_distinct(F.flatten(F.collect_set("verdict")))).alias("verdicts"),
        *(F.count_if(F.col(column) > 0).alias(f"{name}_runs") for name, column in SHARES.items()),
        F.count_distinct(F.when(finished, F.struct("verdict", "sent", *FATES))).alias("endings"),
        *(_sum(column).alias(f"{column}_records") for column in ("lost", "unseen", "missing", "duplicated")),
        F.avg("unavailable_us").cast("long").alias("unavailable_mean_us"),
        F.max("unavailable_us").alias("unavailable_max_us"),
        F.min(F.when(F.col("lost") > 0, seed)).alias("smallest_losing_seed"),
        F.min(F.when(wrong, seed)).alias("smallest_unfinished_seed"),
        F.min_by(F.when(wrong, F.concat_ws(": ", "status", "error")), F.when(wrong, seed)).alias("unfinished_why"),
    )
    for name in SHARES:
        low, high = wilson(F.col(f"{name}_runs"), F.col("finished"))
        share = F.when(F.col("finished") > 0, F.col(f"{name}_runs") / F.col("finished"))
        found = {f"{name}_probability": share, f"{name}_low": low, f"{name}_high": high}
        counts = counts.withColumns(found)
    return counts.join(_latencies(joined.filter(finished)), "setting", "left").select(*DOCS)


def wilson(successes: Column, trials: Column) -> tuple[Column, Column]:
    """Return lower and upper end of the 95 % confidence interval of successes / trials, null if there are no trials.

    Source: E. B. Wilson, Probable inference, the law of succession, and statistical inference (1927), 22 (158)
    """
    share, square = successes / F.when(trials > 0, trials), Z_95**2 / F.when(trials > 0, trials)
    centre = (share + square / 2) / (1 + square)
    half = F.sqrt(share * (1 - share) * square + square * square / 4) / (1 + square)
    # Rounding must not move an end beyond 0 or 1.
    low = F.when(successes == 0, F.lit(0.0)).otherwise(F.greatest(F.lit(0.0), centre - half))
    high = F.when(successes == trials, F.lit(1.0)).otherwise(F.least(F.lit(1.0), centre + half))
    return F.when(trials > 0, low), F.when(trials > 0, high)


def _sum(column: str) -> Column:
    return F.coalesce(F.sum(column), F.lit(0))


def _latencies(finished: DataFrame) -> DataFrame:
    """Return for each setting the percentiles (nearest rank) of the acknowledgement time over all records.

    The columns are setting, ack_p50_us and so on.
    """
    zipped = F.explode(F.arrays_zip(F.col("ack_latency_us").alias("us"), F.col("ack_latency_acks").alias("acks")))
    acks = finished.select("setting", zipped.alias("ack")).select("setting", "ack.*")
    # Spark's percentile_disc takes no weights.
    setting = Window.partitionBy("setting")
    ranked = acks.select(
        "setting",
        "us",
        F.sum("acks").over(setting.orderBy("us")).alias("rank"),
        F.sum("acks").over(setting).alias("all"),
    )
    reached = {name: F.col("rank") * 100 >= F.col("all") * percent for name, percent in PERCENTILES.items()}
    found = [F.min(F.when(enough, F.col("us"))).alias(f"ack_{name}_us") for name, enough in reached.items()]
    return ranked.groupBy("setting").agg(*found)


def _grid(spark: SparkSession, settings: Sequence[tuple[str, ...]]) -> DataFrame:
    schema = StructType(
        [
            StructField("setting", LongType(), False),
            StructField("settings", ArrayType(StringType(), False), False),
        ]
    )
    return spark.createDataFrame([(setting_number, list(item)) for setting_number, item in enumerate(settings)], schema)

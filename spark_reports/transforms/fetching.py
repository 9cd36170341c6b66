"""The fetch path in figures: bytes per answer and per system call, and how fast a follower that came back caught up."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_reports.schema import PARTITION_KEY, REPLICA_KEY, RUN
from spark_reports.transforms.intervals import held_by
from spark_reports.transforms.partitions import lives


def fetch_efficiency(fetch: DataFrame, request: DataFrame) -> DataFrame:
    """One row per broker and whoever fetched from it (a follower or a client).

    in:  the tables fetch and request; only runs that measure requests have rows in the latter
    out: run, node, peer, partition_reads (partitions of fetches answered with records), record_bytes, bytes_per_read,
         empty_fetches (of a follower: partitions asked for and nothing sent), and from the request log, else null:
         requests (fetches that found something), bytes_per_request, sendfile_bytes, sendfile_calls, bytes_per_call,
         sendfile_share (of the bytes answered)
    """
    pair = [RUN, "node", "peer"]
    sent = F.col("event") == "records_sent"
    reads = fetch.groupBy(*pair).agg(
        F.count_if(sent).alias("partition_reads"),
        F.coalesce(F.sum(F.when(sent, F.col("size_bytes"))), F.lit(0)).alias("record_bytes"),
        F.count_if(F.col("event") == "follower_fetched").alias("asked"),
    )
    fetches = (
        request.filter(F.col("api") == "Fetch")
        .groupBy(*pair)
        .agg(
            F.count("*").alias("requests"),
            F.sum("response_bytes").alias("response_bytes"),
            F.sum("sendfile_bytes").alias("sendfile_bytes"),
            F.sum("sendfile_calls").alias("sendfile_calls"),
        )
    )
    return reads.join(fetches, pair, "left").select(
        *pair, "partition_reads", "record_bytes", _ratio("record_bytes", "partition_reads").alias("bytes_per_read"),
        F.when(F.col("asked") > 0, F.greatest(F.lit(0), F.col("asked") - F.col("partition_reads")))
        .alias("empty_fetches"),
        "requests", _ratio("response_bytes", "requests").alias("bytes_per_request"), "sendfile_bytes",
        "sendfile_calls", _ratio("sendfile_bytes", "sendfile_calls").alias("bytes_per_call"),
        _ratio("sendfile_bytes", "response_bytes").alias("sendfile_share"),
    )  # fmt: skip


def _ratio(above: str, below: str) -> Column:
    return F.when(F.col(below) > 0, F.col(above) / F.col(below))


def catch_ups(control: DataFrame, log: DataFrame, fetch: DataFrame, changes: DataFrame) -> DataFrame:
    """One row per replica of a broker that started again: from its first fetch to the leader's end, and into the ISR.

    in:  the tables control, log and fetch, isr_changes()
    out: *REPLICA_KEY, started_us, first_fetch_us, from_offset (what it fetched from first), caught_up_us (its fetch
         reached the leader's end; null: never), to_offset, joined_us (it came back into the ISR; null: it did not, or
         had never left), records and bytes (appended meanwhile: up to then, or to the end of its life; what is cut off
         again counts too), records_per_s, bytes_per_s
    """
    life = lives(control).filter("life > 1").drop("life").withColumn("until_seq", F.col("until_seq") - 1)
    fetched = held_by(
        fetch.filter(F.col("event") == "follower_fetched").select(
            *PARTITION_KEY, F.col("peer").alias("node"), "seq", "at_us", "fetch_offset", "log_end_offset"
        ),
        life,
        (RUN, "node"),
    )
    reached = F.col("fetch_offset") >= F.col("log_end_offset")
    # `from_seq` tells the lives of a replica apart.
    replica = [*REPLICA_KEY, "started_us", "from_seq"]
    caught = (
        fetched.groupBy(*replica, "until_seq")
        .agg(*_earliest(F.col("seq"), "first"), *_earliest(F.when(reached, F.col("seq")), "caught"))
        .cache()
    )
    joined = held_by(
        changes.select(*PARTITION_KEY, F.explode("joined").alias("node"), "seq", "at_us"), life, (RUN, "node")
    ).groupBy(*replica).agg(F.min("at_us").alias("joined_us"))  # fmt: skip
    meanwhile = caught.select(
        *REPLICA_KEY, "started_us", F.col("from_seq").alias("life_seq"), (F.col("first_seq") + 1).alias("from_seq"),
        F.coalesce("caught_seq", "until_seq").alias("until_seq"),
    )  # fmt: skip
    appended = log.filter(F.col("role") == "follower").select(
        *REPLICA_KEY, "seq", "size_bytes", (F.col("last_offset") - F.col("base_offset") + 1).alias("appended_records")
    )
    copied = (
        held_by(appended, meanwhile, REPLICA_KEY)
        .groupBy(*REPLICA_KEY, "started_us", F.col("life_seq").alias("from_seq"))
        .agg(F.sum("size_bytes").alias("bytes"), F.sum("appended_records").alias("records"))
    )
    took_s = (F.col("caught_us") - F.col("first_us")) / 1_000_000
    records, size_bytes = F.coalesce("records", F.lit(0)), F.coalesce("bytes", F.lit(0))
    return (
        caught.join(joined, replica, "left")
        .join(copied, replica, "left")
        .select(
            *REPLICA_KEY, "started_us", F.col("first_us").alias("first_fetch_us"),
            F.col("first_offset").alias("from_offset"), F.col("caught_us").alias("caught_up_us"),
            F.col("caught_offset").alias("to_offset"), "joined_us", records.alias("records"),
            size_bytes.alias("bytes"), F.when(took_s > 0, records / took_s).alias("records_per_s"),
            F.when(took_s > 0, size_bytes / took_s).alias("bytes_per_s"),
        )
    )  # fmt: skip


def _earliest(seq: Column, name: str) -> list[Column]:
    """The first fetch by `seq`, in columns: of structs Spark would sort all rows, of numbers it does not."""
    return [
        F.min(seq).alias(f"{name}_seq"),
        F.min_by("at_us", seq).alias(f"{name}_us"),
        F.min_by("fetch_offset", seq).alias(f"{name}_offset"),
    ]

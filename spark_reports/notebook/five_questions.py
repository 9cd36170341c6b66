# ---
# jupyter:
#   jupytext:
#     formats: py:percent
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # Five questions to Kafka's replication, answered with PySpark
#
# Each cell is plain Python; open this file in VS Code, in Jupyter with jupytext, or run it from a shell. It plays five
# bundled scenarios with their variants (a few seconds of computing) and asks their traces. The events and their columns
# are declared in `replica/trace/`; the report's own definitions (`spark_reports/transforms`) are ordinary functions
# from DataFrame to DataFrame, and `highwater.tables` has them all by name.

# %%
import atexit
import contextlib
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

import highwater
from spark_reports.io import read_trace
from spark_reports.session import spark_session

played: list[highwater.Run] = []  # The files of a run are removed with its object.


def play(scenario: str, *variants: str) -> list[Path]:
    """Run a bundled scenario and its variants, and return the folders of the runs."""
    runs = [highwater.run(scenario, variant=variant) for variant in (None, *variants)]
    played.extend(runs)
    return [run.run_dir for run in runs]


def session() -> SparkSession:
    """Return a Spark session for the whole notebook; it ends with the kernel."""
    stack = contextlib.ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(spark_session())


spark: SparkSession = globals().get("spark") or session()


def show(question: str, answer: DataFrame) -> None:
    """Print a question and the table that answers it."""
    print(f"\n{question}\n")
    answer.show(truncate=False)


# %% [markdown]
# ## 1. Can a record be lost that was acked? (`acks1-leader-kill`)
#
# Acked records without those that are readable at the end: an anti-join, by acks.

# %%
trace = read_trace(spark, play("acks1-leader-kill", "acks-all", "acks-0"))
acked = trace.produce.filter("event = 'record_acked'").select("run", "acks", "record")
leader = trace.final_log.filter("event = 'replica_found' AND is_leader").select(
    "run", "partition", "node", "high_watermark"
)
batches = trace.final_log.filter("event = 'log_entries_found'").drop("high_watermark")
readable = (
    batches.select("*", F.posexplode("records").alias("place", "record"))
    .join(leader, ["run", "partition", "node"])
    .filter("offset + place < high_watermark")
)
unreadable: DataFrame = (
    acked.join(readable, ["run", "record"], "left_anti")
    .groupBy("run", "acks")
    .agg(F.array_join(F.array_sort(F.collect_list("record")), ", ").alias("unreadable"))
)
show("1. Can an acked record be lost? Records that were acked, but not readable at the end:", unreadable)
# This happens only with acks=1, where the leader alone acknowledges a record and then fails.

# %% [markdown]
# ## 2. Why does one dead link stop every writer, and for how long? (`follower-cut-hw-stall`)
#
# A follower that is in the ISR and does not fetch holds the high watermark, and with it every producer that asks for
# acks=all, until the leader gives up on it after `replica.lag.time.max.ms`.

# %%
tables = highwater.tables(spark, play("follower-cut-hw-stall", "kill"))
length_s = (F.col("until_us") - F.col("from_us")) / 1_000_000
held: DataFrame = tables["hw_stalls"].select(
    "run", length_s.alias("stood_s"), "waiting_records", "pinned_by", "ended_by"
)
show("2. Why does one dead link stop every writer? High watermarks that stood still, and who held them back:", held)
waited: DataFrame = tables["write_stalls"].select("run", "client", length_s.alias("waited_s"))
show("   And for how long? Times in which no write of a producer succeeded:", waited)

# %% [markdown]
# ## 3. Is a shorter timeout safer? (`flapping-isr`)
#
# How often the ISR changed, beside the slowest acks. The answer is a trade, not a yes.

# %%
tables = highwater.tables(spark, play("flapping-isr", "default"))
changes = tables["isr_changes"].groupBy("run").agg(F.count("*").alias("isr_changes"))
flapping: DataFrame = (
    tables["ack_latency"]
    .join(changes, "run", "left")
    .select(
        "run", F.coalesce("isr_changes", F.lit(0)).alias("isr_changes"), (F.col("p99_us") / 1000).alias("ack_p99_ms")
    )
)
show("3. Is a shorter timeout safer? ISR changes, and the slowest acks:", flapping.orderBy("run"))

# %% [markdown]
# ## 4. Can two brokers both believe that they lead, and who is harmed? (`zombie-leader-acks1`)
#
# Acks given by a broker after the controller had chosen another.

# %%
trace = read_trace(spark, play("zombie-leader-acks1", "acks-all"))
elected = trace.control.filter("event = 'leader_elected'").select("run", "topic", "partition", "broker", "seq")
acks = trace.produce.filter("event = 'record_acked'").select("run", "topic", "partition", "peer", "record", "seq")
in_order = Window.partitionBy("run", "topic", "partition").orderBy("seq")
so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
chosen = F.last("broker", ignorenulls=True).over(so_far)
zombies: DataFrame = (
    acks.unionByName(elected, allowMissingColumns=True)
    .withColumn("leader", chosen)
    .filter("record IS NOT NULL AND leader IS NOT NULL AND peer <> leader")
    .groupBy("run", F.col("peer").alias("acked_by"), "leader")
    .agg(F.count("*").alias("acks"), F.array_join(F.array_sort(F.collect_list("record")), ", ").alias("records"))
)
show("4. Can two brokers both believe that they lead? Acks by a broker after another broker was elected:", zombies)
# One record. The other lost records were acknowledged by b1 while it was still the leader.

# %% [markdown]
# ## 5. Why is the high watermark the wrong place to cut a log? (`kip101-hw-truncation-loss`)
#
# Each truncation: how much it cut, and whether a leader had acked it. By leader epochs nothing of this is cut.

# %%
folders = play("kip101-hw-truncation-loss", "leader-epochs")
tables = highwater.tables(spark, folders)
cuts = read_trace(spark, folders).control.filter("event = 'log_truncated'").select(
    "run", "node", F.col("log_end_offset").alias("cut_at"), F.col("previous_log_end_offset").alias("had_reached"),
    F.col("previous_high_watermark").alias("its_hw"), "reason",
)  # fmt: skip
show(
    "5. Why is the high watermark the wrong place to cut a log? Every truncation, and where the log had ended:",
    cuts,
)
lost: DataFrame = tables["lost_records"].select("run", "record", "ack_offset", "erased_on", "erased_reason")
show("   And which of the truncated records were acked? Lost records:", lost)

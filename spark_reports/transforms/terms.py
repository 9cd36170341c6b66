"""Compute the leaders of a partition over time. Values that only a leader knows are valid in its term."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from replica.trace import names
from spark_reports.folding import folded
from spark_reports.folds import terms as fold
from spark_reports.folds.events import Folding, by_partition
from spark_reports.folds.facts import Facts, same
from spark_reports.results import RESULT_TABLES
from spark_reports.schema import PARTITION_KEY, RUN

TERM_KEY = (*PARTITION_KEY, "leader_epoch", "leader")


def leader_terms(control: DataFrame, turns: DataFrame) -> DataFrame:
    """Return one row per term of a leader.

    A term begins when the broker learns that it is leader. It ends when the controller chooses another leader or no
    leader, when the broker stops, when the topic is deleted, or with the run. Later events of a leader that does not
    know this yet belong to no term.

    Args:
        control: the control table.
        turns: node_turns().
    """
    at = (*PARTITION_KEY, "seq", "at_us")
    began = control.filter(F.col("event") == names.LEADERSHIP_BEGAN)
    at_deletion = control.filter(F.col("event") == names.TOPIC_DELETED).select(RUN, "topic", "seq", "at_us")
    last = control.groupBy(RUN).agg(F.max("seq").alias("seq"), F.max_by("at_us", "seq").alias("at_us"))
    facts = {
        # In the ZooKeeper era an epoch can also rise without an election, when the controller takes a follower offline.
        fold.CHOSEN: control.filter(F.col("event").isin(names.LEADER_ELECTED, names.PARTITION_WENT_OFFLINE)).select(
            *at, "leader_epoch"
        ),
        fold.BEGAN: began.select(
            *at, "leader_epoch", F.col("node").alias("leader"), "log_end_offset", "high_watermark"
        ),
        fold.STOPPED: turns.filter(F.col("event") == names.NODE_STOPPED).select(*at, F.col("node").alias("leader")),
        fold.DELETED: began.select(*PARTITION_KEY).distinct().join(F.broadcast(at_deletion), [RUN, "topic"]),
        fold.REMOVED: control.filter(F.col("event") == names.REPLICA_DELETED).select(
            *at, F.col("node").alias("leader")
        ),
        fold.OVER: began.select(*PARTITION_KEY).distinct().join(F.broadcast(last), RUN),
    }
    return folded(facts, fold.TERM_COLUMNS, fold.leader_terms, RESULT_TABLES["leader_terms"].ddl)


# ------------------------------------------------------------------------------------------------------------ elections
#
# Elections, and how long each took from the loss of the old leader to the first write under the new one.


def elections() -> Folding:
    """Return a folding with one row per leader that the controller chose.

    A leader is lost when it stops, when the partition goes offline, or when a stopped broker is chosen. `lost_us` and
    the durations since then are null if the old leader was running when it was deposed.
    """
    at = same("seq", "at_us")
    of_node = {**at, "leader": "node"}
    of_leader = {**of_node, **same("leader_epoch")}
    of_controller = {**at, "leader": "broker", **same("leader_epoch")}
    chosen = {**of_controller, **same("previous_leader", "clean", "isr", "reason")}
    facts = {
        fold.CREATED: Facts("control", of_controller, {"event": [names.PARTITION_CREATED]}),
        fold.ELECTED: Facts("control", chosen, {"event": [names.LEADER_ELECTED]}),
        fold.OFFLINE: Facts("control", {**at, **same("leader_epoch")}, {"event": [names.PARTITION_WENT_OFFLINE]}),
        fold.BEGAN: Facts("control", of_leader, {"event": [names.LEADERSHIP_BEGAN]}),
        fold.STOPPED: Facts("control", of_node, {"event": [names.NODE_STOPPED]}, everywhere=True),
        fold.STARTED: Facts("control", of_node, {"event": [names.NODE_STARTED]}, everywhere=True),
        fold.APPENDED: Facts("log", of_leader, {"role": ["leader"]}),
    }
    return Folding(by_partition(fold.elections, fold.elections_cut), facts, fold.ELECTION_COLUMNS)

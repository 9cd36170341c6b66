"""The leaders of a partition from when to when: the frame of values that only a leader knows."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from replica.trace.names import (
    LEADER_ELECTED,
    LEADERSHIP_BEGAN,
    NODE_STARTED,
    NODE_STOPPED,
    PARTITION_CREATED,
    PARTITION_WENT_OFFLINE,
    REPLICA_DELETED,
    TOPIC_DELETED,
)
from spark_reports.folding import folded
from spark_reports.folds import terms as fold
from spark_reports.folds.events import Folding, by_partition
from spark_reports.folds.facts import Facts, same
from spark_reports.results import RESULT_TABLES
from spark_reports.schema import PARTITION_KEY, RUN

TERM_KEY = (*PARTITION_KEY, "leader_epoch", "leader")


def leader_terms(control: DataFrame, turns: DataFrame) -> DataFrame:
    """One row per time a broker learned that it leads: its term, to when the controller chose another or none, its
    broker stopped, its topic was deleted, or the run ended. A deposed leader's events before it hears of its removal
    belong to no term, nor do those of a topic's leader between the deletion and the removal of its replica.

    in:  the table control, node_turns()
    out: *TERM_KEY, from_us, from_seq, until_us, until_seq, ended_by, log_end_offset and high_watermark at its beginning
    """
    at = (*PARTITION_KEY, "seq", "at_us")
    began = control.filter(F.col("event") == LEADERSHIP_BEGAN)
    at_deletion = control.filter(F.col("event") == TOPIC_DELETED).select(RUN, "topic", "seq", "at_us")
    last = control.groupBy(RUN).agg(F.max("seq").alias("seq"), F.max_by("at_us", "seq").alias("at_us"))
    facts = {
        # In the ZooKeeper era an epoch can also rise without an election: when the controller takes a follower offline.
        fold.CHOSEN: control.filter(F.col("event").isin(LEADER_ELECTED, PARTITION_WENT_OFFLINE)).select(
            *at, "leader_epoch"
        ),
        fold.BEGAN: began.select(
            *at, "leader_epoch", F.col("node").alias("leader"), "log_end_offset", "high_watermark"
        ),
        fold.STOPPED: turns.filter(F.col("event") == NODE_STOPPED).select(*at, F.col("node").alias("leader")),
        fold.DELETED: began.select(*PARTITION_KEY).distinct().join(F.broadcast(at_deletion), [RUN, "topic"]),
        fold.REMOVED: control.filter(F.col("event") == REPLICA_DELETED).select(*at, F.col("node").alias("leader")),
        fold.OVER: began.select(*PARTITION_KEY).distinct().join(F.broadcast(last), RUN),
    }
    return folded(facts, fold.TERM_COLUMNS, fold.leader_terms, RESULT_TABLES["leader_terms"].ddl)


# ------------------------------------------------------------------------------------------------------------ elections
#
# Elections, and how long each took from the loss of the old leader to the first write under the new one.


def elections() -> Folding:
    """One row per leader the controller chose.

    out: *PARTITION_KEY, leader_epoch, seq, at_us, leader, previous_leader, clean, isr, reason,
         lost_us         since when the partition had had no running leader: its leader's process stopped, the partition
                         went offline, or a broker was chosen that was down, whichever was first since a leader learned
                         that it leads; null if the old leader was deposed while it ran
         leading_us      when the chosen broker learned that it leads; null if it never did
         first_write_us  its first append in that epoch; null if there was none
         elect_us        at_us - lost_us
         write_us        first_write_us - lost_us: time to recover, as a producer sees it
    """
    at = same("seq", "at_us")
    of_node = {**at, "leader": "node"}
    of_leader = {**of_node, **same("leader_epoch")}
    of_controller = {**at, "leader": "broker", **same("leader_epoch")}
    chosen = {**of_controller, **same("previous_leader", "clean", "isr", "reason")}
    facts = {
        fold.CREATED: Facts("control", of_controller, {"event": [PARTITION_CREATED]}),
        fold.ELECTED: Facts("control", chosen, {"event": [LEADER_ELECTED]}),
        fold.OFFLINE: Facts("control", {**at, **same("leader_epoch")}, {"event": [PARTITION_WENT_OFFLINE]}),
        fold.BEGAN: Facts("control", of_leader, {"event": [LEADERSHIP_BEGAN]}),
        fold.STOPPED: Facts("control", of_node, {"event": [NODE_STOPPED]}, everywhere=True),
        fold.STARTED: Facts("control", of_node, {"event": [NODE_STARTED]}, everywhere=True),
        fold.APPENDED: Facts("log", of_leader, {"role": ["leader"]}),
    }
    return Folding(by_partition(fold.elections, fold.elections_cut), facts, fold.ELECTION_COLUMNS)

"""Elections, and how long each took from the loss of the old leader to the first write under the new one."""

from __future__ import annotations

from replica.trace.names import (
    LEADER_ELECTED,
    LEADERSHIP_BEGAN,
    NODE_STARTED,
    NODE_STOPPED,
    PARTITION_CREATED,
    PARTITION_WENT_OFFLINE,
)
from spark_reports.folds import terms as fold
from spark_reports.folds.events import Folding, by_partition
from spark_reports.folds.facts import Facts, same


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

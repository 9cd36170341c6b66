"""Holders of a lost record, leaders without it, and its deletion, the slow way: every replica's log by record."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from tests.spark.slow.truth import Found, Place, Row


class Logs:
    """The present content of each replica's log: offset -> names of records."""

    def __init__(self) -> None:
        self.names: dict[tuple[Any, ...], tuple[str, ...]] = {}
        self.logs: dict[tuple[Any, ...], dict[int, str]] = defaultdict(dict)

    def take(self, row: Row) -> None:
        event, place = row["event"], (row.get("topic"), row.get("partition"))
        if event == "batch_sent":
            self.names[*place, row["crc"]] = tuple(row["records"])
        elif event == "batch_appended":
            names = self.names.get((*place, row["crc"]), ())
            self.logs[*place, row["node"]].update(dict(enumerate(names, row["base_offset"])))
        elif event in ("log_truncated", "log_recovered"):
            log = self.logs[*place, row["node"]]
            for offset in [offset for offset in log if offset >= row["log_end_offset"]]:
                del log[offset]
        elif event == "replica_deleted":
            self.logs[*place, row["node"]].clear()
        elif event == "topic_deleted":
            for key in [key for key in self.logs if key[0] == row["topic"]]:
                self.logs[key].clear()

    def who_has(self, place: Place, record: str) -> set[str]:
        return {key[2] for key, log in self.logs.items() if key[:2] == place and record in log.values()}


def lost_records(rows: list[Row]) -> Found:
    """(topic, partition, record, acked_us, acked_by, held_by, elected_us, elected, elected_clean, elected_reason,
    erased_us, erased_on, erased_reason, disk_lost_us, disk_lost_on, disk_lost_reason)"""
    lost = _lost(rows)
    logs = Logs()
    for row in rows:
        event, place = row["event"], (row.get("topic"), row.get("partition"))
        watched = [one for key, one in lost.items() if key[:2] == place and "acked_us" in one]
        if event == "log_truncated":
            had = [one for one in watched if row["node"] in logs.who_has(place, one["record"])]
        logs.take(row)
        if event == "record_acked" and (key := (*place, row["record"])) in lost and "acked_us" not in lost[key]:
            holders = logs.who_has(place, row["record"])
            lost[key].update(
                record=row["record"], acked_us=row["at_us"], acked_by=row["peer"], held_by=tuple(sorted(holders)),
            )  # fmt: skip
        elif event == "leader_elected":
            for one in watched:
                if "elected" not in one and row["broker"] not in logs.who_has(place, one["record"]):
                    one["elected"] = (row["at_us"], row["broker"], row["clean"], row["reason"])
        elif event == "log_truncated":
            for one in had:
                if row["node"] not in logs.who_has(place, one["record"]):
                    one.setdefault("erased", []).append(row)
        elif event == "data_lost":
            for one in watched:
                one.setdefault("disk_lost", []).append(row)
    return {
        (*key[:2], one["record"], one["acked_us"], one["acked_by"], one["held_by"],
         *one.get("elected", (None,) * 4), *_taken(one.get("erased")), *_taken(one.get("disk_lost")))
        for key, one in lost.items()
    }  # fmt: skip


def _taken(rows: list[Row] | None) -> tuple[Any, ...]:
    if not rows:
        return None, None, None
    return rows[0]["at_us"], tuple(sorted({row["node"] for row in rows})), rows[0]["reason"]


def _compacted(rows: list[Row]) -> set[tuple[Any, ...]]:
    """Records that compaction took and had to take: by a later one of their key, as tombstones, or as aborted ones."""
    sent = [row for row in rows if row["event"] == "batch_sent"]
    names = {(row["topic"], row["partition"], row["crc"]): row["records"] for row in sent}
    keyed: dict[Place, dict[int, tuple[str, bool, Any]]] = defaultdict(dict)
    gone: set[tuple[Any, ...]] = set()
    for row in rows:
        place = (row.get("topic"), row.get("partition"))
        if row["event"] == "keys_appended":
            for index, key in enumerate(row["keys"]):
                offset = row["base_offset"] + index
                of_batch = names.get((*place, row["crc"]), ())
                name = of_batch[index] if index < len(of_batch) else None
                keyed[place][offset] = (key, offset in row["tombstones"], name)
        elif row["event"] == "batch_compacted":
            for offset in row["removed"]:
                key, is_tombstone, name = keyed[place].get(offset, (None, False, None))
                is_old = any(
                    key == other and offset < later < row["cleaned_to"] for later, (other, _, _) in keyed[place].items()
                )
                if is_old or is_tombstone or row["aborted"]:
                    gone.add((*place, name))
    return gone


def _aborted(rows: list[Row]) -> set[tuple[Any, ...]]:
    """Records of which every sending was in a transaction that was aborted."""
    sent: dict[tuple[Any, ...], list[bool | None]] = defaultdict(list)
    transactional = {row["producer_id"] for row in rows if row["event"] == "transaction_state_changed"}
    decisions = _decisions(rows) if transactional else []
    for index, row in enumerate(rows):
        if row["event"] != "batch_sent" or row["attempt"] > 1 or row["producer_id"] not in transactional:
            continue
        decision = next((ended for at, who, ended in decisions if at > index and who == row["producer_id"]), None)
        for record in row["records"]:
            sent[row["topic"], row["partition"], record].append(decision)
    return {key for key, ends in sent.items() if all(end is False for end in ends)}


def _decisions(rows: list[Row]) -> list[tuple[int, int, bool]]:
    """(place in the trace, producer id, committed)"""
    found, latest = [], {}
    for index, row in enumerate(rows):
        if row["event"] == "transaction_state_changed":
            state, before = row["state"], latest.get(row["transactional_id"], "")
            if state.startswith("Prepare") or (state.startswith("Complete") and not before.startswith("Prepare")):
                found.append((index, row["producer_id"], state.endswith("Commit")))
            latest[row["transactional_id"]] = state
    return found


def _lost(rows: list[Row]) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Records acked, not in the final log of their partition, not deleted by an operator, not aged and not aborted."""
    logs, deleted, acked = Logs(), _compacted(rows) | _aborted(rows), []
    for row in rows:
        place = (row.get("topic"), row.get("partition"))
        if row["event"] == "records_expired" or (
            row["event"] == "log_start_offset_advanced" and row["role"] == "leader"
        ):
            log = logs.logs[*place, row["node"]]
            deleted |= {(*place, name) for offset, name in log.items() if offset < row["log_start_offset"]}
        elif row["event"] == "topic_deleted":
            deleted |= {(*key[:2], name) for key, log in logs.logs.items() if key[0] == row["topic"]
                        for name in log.values()}  # fmt: skip
        elif row["event"] == "record_acked":
            acked.append((*place, row["record"]))
        logs.take(row)
    final: dict[Place, tuple[Any, ...]] = {}
    for row in rows:
        if row["event"] == "replica_found":
            who = (not row["is_leader"], not row["in_isr"], not row["in_elr"])
            rank = (*who, -row["leader_epoch"], -row["log_end_offset"], row["node"])
            place = (row["topic"], row["partition"])
            final[place] = min(final.get(place, rank), rank)
    there = {
        (row["topic"], row["partition"], record)
        for row in rows
        if row["event"] == "log_entries_found" and final.get((row["topic"], row["partition"]), ("",))[-1] == row["node"]
        for record in row["records"]
    }
    return {key: {} for key in acked if key not in there and key not in deleted}

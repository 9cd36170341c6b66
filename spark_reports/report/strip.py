"""Draw each replica's role over a whole run as a thin ribbon, for overviews of runs and partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from replica.trace.signs import in_broker_order
from spark_reports.report.rows import Row, Rows
from spark_reports.report.words import short_time

Tables = Mapping[str, Rows]

MARKS = 200
"""Largest number of marks of each kind on one strip; more could not be distinguished."""


class Block(NamedTuple):
    """A coloured block. `x` and `width` are in thousandths of the time axis; `kind` is its class in style.css."""

    x: float
    width: float
    kind: str


class Ribbon(NamedTuple):
    """The roles of one replica over time, as blocks. `said` is the total time in each role, as text."""

    node: str
    blocks: list[Block]
    said: str


class Strip(NamedTuple):
    """One partition over a whole run. The positions of elections and losses are in thousandths of the time axis."""

    ribbons: list[Ribbon]
    faults: list[Block]
    elections: list[float]
    losses: list[float]


def run_strip(partition: Row, tables: Tables, end_us: int, clock_us: int) -> Strip:
    """Return the strip of a partition.

    Args:
        partition: a row with topic and partition.
        tables: the run's result tables by name.
        end_us: end of the run.
        clock_us: length of the time axis, which all runs of a page share.
    """
    own = {name: rows.where(topic=partition["topic"], partition=partition["partition"])
           for name, rows in tables.items() if "partition" in rows.columns}  # fmt: skip

    def position(at_us: int) -> float:
        return round(1000 * at_us / clock_us, 2)

    faults = [
        Block(position(row["from_us"]), position(row["until_us"] - row["from_us"]), _kind_of_fault(row, end_us))
        for row in tables["fault_intervals"][:MARKS]
    ]
    return Strip(
        ribbons(own["isr_intervals"], tables["stopped_intervals"], clock_us),
        faults,
        [position(at_us) for at_us in list(own["elections"].values("at_us"))[:MARKS]],
        sorted({position(at_us) for at_us in list(own["lost_records"].values("acked_us"))[:MARKS]}),
    )


def _kind_of_fault(fault: Row, end_us: int) -> str:
    return "lasting" if fault["until_us"] >= end_us else "fault"


def ribbons(standings: Rows, stopped: Iterable[Row], clock_us: int) -> list[Ribbon]:
    """Return a ribbon for each replica, sorted by broker.

    `standings` are one partition's rows of isr_intervals, `stopped` rows of stopped_intervals.
    """
    down = list(stopped)
    found = []
    for node in in_broker_order(set(standings.values("node"))):
        own = list(standings.where(node=node)) + [{**row, "standing": "down"} for row in down if row["node"] == node]
        blocks = [
            Block(
                round(1000 * row["from_us"] / clock_us, 2),
                round(1000 * (row["until_us"] - row["from_us"]) / clock_us, 2),
                row["standing"].replace(" ", "-"),
            )
            for row in own
        ]
        found.append(Ribbon(node, blocks, _in_words(own)))
    return found


def _in_words(stretches: Sequence[Row]) -> str:
    """Return the total time in each role as text: `leader 10.5 s, out of sync 11 s, down 19.5 s`."""
    lasted: dict[str, int] = {}
    for row in stretches:
        lasted[row["standing"]] = lasted.get(row["standing"], 0) + row["until_us"] - row["from_us"]
    return ", ".join(f"{standing} {short_time(us)}" for standing, us in lasted.items() if us)

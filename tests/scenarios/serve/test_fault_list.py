"""The table of `highwater fault list`."""

from __future__ import annotations

from typing import Any

from scenarios.cli.fault import state_lines
from scenarios.terminal.style import Style


def partition(name: str, leader: str | None, isr: list[str], epoch: int) -> dict[str, Any]:
    replicas = [{"node": node, "high_watermark": 20, "log_end_offset": 20} for node in isr]
    return {"partition": name, "leader": leader, "leader_epoch": epoch, "isr": isr, "min_isr": 1, "replicas": replicas}


def test_the_columns_of_the_partitions_line_up_however_long_the_names_are() -> None:
    state: dict[str, Any] = {
        "bootstrap": ["127.0.0.1:19092"], "profile": "kafka-4.1", "at_s": 1.0, "outside_clients": [], "faults": [],
        "acked_records_gone": {"orders-0": 1, "orders-1": 2_000},
        "nodes": [{"node": "b1", "state": "running", "active_controller": False, "fenced": False, "leads": []}],
        "partitions": [
            partition("orders-0", "broker-in-amsterdam", ["broker-in-amsterdam", "b2"], 12),
            partition("orders-1", "b2", ["b2"], 0),
            partition("orders-2", None, [], 1000),
        ],
    }  # fmt: skip
    shown = state_lines(state, Style(width=80, plain=True))
    assert "  LOST 2,001 acked records lost: orders-0 1, orders-1 2,000" in shown
    head, *lines = [line for line in shown if "lost" not in line and ("orders-" in line or "ISR" in line)]
    assert len(lines) == 3
    for column in ("LEADER", "ISR", "REPLICAS"):
        assert not any(line[head.index(column) - 2 : head.index(column)].strip() for line in lines), column
    assert [line[head.index("LEADER") :].split("  ")[0] for line in lines] == [
        "broker-in-amsterdam e12", "b2 e0", "none e1000",
    ]  # fmt: skip
    assert [line[head.index("ISR") :].split("  ")[0] for line in lines] == ["broker-in-amsterdam,b2", "b2", ""]

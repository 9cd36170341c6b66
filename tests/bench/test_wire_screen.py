"""`bench wire` reports a trickle that the cluster cannot keep up with."""

from tests.bench.wire_screen import _lone, _queue


def row(what, offered, served, lone=4.0):
    return {
        "cluster": "c",
        "what": what,
        "size_bytes": 100,
        "offered_per_s": offered,
        "served_per_s": served,
        "lone_p50_ms": lone,
    }


def test_a_queue_is_told_and_a_row_without_latency_is_not():
    assert _queue(row("produce acks=all", 500.0, 209.4)) == "   serves 209/s of 500/s"
    assert _queue(row("produce acks=1", 500.0, 498.0)) == ""
    assert _queue(row("consume", None, None)) == ""


def test_latency_without_a_queue_is_one_line_per_cluster_and_size():
    rows = [row("produce acks=1", 1, 1, 0.5), row("produce acks=all", 1, 1), row("consume", None, None, None)]
    (line,) = _lone(rows)
    assert line.endswith("c                     100 B  acks=1 0.50, acks=all 4.00")

"""How one event of a trace came to cause another: a graph, which an explanation in words does without."""

from __future__ import annotations

from collections.abc import Iterable

import networkx as nx

from replica.trace.events import TraceRow


def causal_chain(rows: Iterable[TraceRow], first: int, last: int) -> list[int]:
    """Shortest path of causes from one event to a later one; just both ends when nothing in the trace links them."""
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from((first, last))
    for row in rows:
        if first <= row.seq <= last:
            graph.add_edges_from((cause, row.seq) for cause in row.causes if cause >= first)
    try:
        return list(nx.shortest_path(graph, first, last))
    except nx.NetworkXNoPath:
        return [first, last]

"""Find a path in the graph of causes from one event of a trace to another."""

from __future__ import annotations

from collections.abc import Iterable

import networkx as nx

from replica.trace.events import TraceRow


def causal_chain(rows: Iterable[TraceRow], first: int, last: int) -> list[int]:
    """Return the sequence numbers on the shortest path of causes from `first` to `last`, or only these two."""
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from((first, last))
    for row in rows:
        if first <= row.seq <= last:
            graph.add_edges_from((cause, row.seq) for cause in row.causes if cause >= first)
    try:
        return list(nx.shortest_path(graph, first, last))
    except nx.NetworkXNoPath:
        return [first, last]

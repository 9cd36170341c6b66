"""Exports a run's tape (view/tape.py) to Perfetto, ShiViz, Mermaid and CSV, with the sentences of the page."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from scenarios.view.places import NOTHING
from scenarios.view.tape import Tape

_CLUSTER = 1
"""Process id of the cluster in Perfetto. The nodes have the following ids."""


def perfetto(tape: Tape) -> str:
    """Return the tape in Chrome's trace event format (JSON), which ui.perfetto.dev reads.

    Each node is a process, LEO and HW are counters, messages are flows, and events and faults are slices.

    Source: Trace Event Format, Google 2016
    """
    nodes, kinds, texts, partitions = map(list, (tape.nodes, tape.kinds, tape.texts, tape.partitions))
    events: list[dict[str, Any]] = [_process(_CLUSTER, "cluster")]
    events += [
        _process(_process_id(index), f"{name} ({tape.roles.get(name, 'client')})") for index, name in enumerate(nodes)
    ]
    receivers = _receivers(tape)
    for index, at_us in enumerate(tape.at_us):
        process = _process_id(tape.node[index])
        common = {"pid": process, "tid": 1, "ts": at_us}
        kind, sentence = kinds[tape.kind[index]], texts[tape.text[index]]
        # A flow must be attached to a slice, so every event is a slice of one microsecond.
        events.append(
            {**common, "ph": "X", "dur": 1, "name": kind, "cat": tape.key[index] or "event", "args": {"text": sentence}}
        )
        if tape.sender[index] != NOTHING:
            events.append({**common, "ph": "f", "bp": "e", "id": index, "name": "message", "cat": "message"})
        for to in receivers.get(index, ()):
            events.append({**common, "ph": "s", "id": to, "name": "message", "cat": "message"})
        for change in tape.changes[index]:
            if change[0] == "replica":
                values = {"LEO": change[6], "HW": change[7]}
                events.append(
                    {
                        "ph": "C",
                        "pid": _process_id(change[2]),
                        "ts": at_us,
                        "name": partitions[change[1]],
                        "args": values,
                    }
                )
    for number, fault in enumerate(tape.faults):
        until_us = tape.end_us if fault.until_us is None else fault.until_us
        slice_ = {
            "ph": "X",
            "pid": _CLUSTER,
            "tid": number + 1,
            "ts": fault.from_us,
            "dur": max(1, until_us - fault.from_us),
        }
        events.append({**slice_, "name": fault.text, "cat": "fault", "args": {"targets": ", ".join(fault.targets)}})
    return json.dumps({"displayTimeUnit": "ms", "traceEvents": events}, separators=(",", ":"))


def _process_id(node: int) -> int:
    return _CLUSTER if node == NOTHING else node + _CLUSTER + 1


def _process(number: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": "process_name", "pid": number, "args": {"name": name}}


def _receivers(tape: Tape) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for index, sender in enumerate(tape.sender):
        if sender != NOTHING:
            found.setdefault(sender, []).append(index)
    return found


SHIVIZ_PATTERN = r"(?<event>.*)\n(?<host>\S*) (?<clock>{.*})"
"""Regular expression for the log, which ShiViz expects in the first line of the file."""


def shiviz(tape: Tape) -> str:
    """Return the tape as a log with vector clocks.

    The clock of an event merges the clock of its node and, if a message caused the event, the clock of the sending
    event.

    Source: ShiViz, log format (bestchai.bitbucket.io/shiviz)
    """
    nodes, texts = list(tape.nodes), list(tape.texts)
    clocks: dict[int, dict[str, int]] = {}
    latest: dict[int, Mapping[str, int]] = {}
    lines = [SHIVIZ_PATTERN, ""]
    for index, node in enumerate(tape.node):
        if node == NOTHING:
            continue
        host = re.sub(r"\s", "_", nodes[node])
        clock = dict(latest.get(node, {}))
        for name, count in clocks.get(tape.sender[index], {}).items():
            clock[name] = max(clock.get(name, 0), count)
        clock[host] = clock.get(host, 0) + 1
        clocks[index] = clock
        latest[node] = clock
        lines += [f"{tape.at_us[index] / 1e6:.6f} {texts[tape.text[index]]}", f"{host} {json.dumps(clock)}"]
    return "\n".join([*lines, ""])


MERMAID_LINES_MAX = 450
"""Largest number of steps in a diagram. Mermaid refuses more than 500 arrows or 50,000 characters."""


def mermaid(tape: Tape) -> str:
    """Return a sequence diagram of the messages and key events. The middle of a long run is replaced by a note."""
    nodes, kinds, texts = map(list, (tape.nodes, tape.kinds, tape.texts))
    steps = []
    for index, at_us in enumerate(tape.at_us):
        moment = f"{at_us / 1e6:.3f}"
        sender, node = tape.sender[index], tape.node[index]
        if tape.key[index] and node != NOTHING:
            steps.append(f"    Note over {_alias(node)}: {moment} {_plain(texts[tape.text[index]])}")
        elif sender != NOTHING and kinds[tape.kind[index]] not in ("follower_fetched", "record_read"):
            said = f"{moment} {_plain(texts[tape.text[index]])}"
            steps.append(f"    {_alias(tape.node[sender])}->>{_alias(node)}: {said}")
    if len(steps) > MERMAID_LINES_MAX:
        half, over = MERMAID_LINES_MAX // 2, len(steps) - MERMAID_LINES_MAX
        note = f"    Note over {_alias(0)}: {over:,} steps omitted here"
        steps = [*steps[:half], note, *steps[-half:]]
    shown = [f"    participant {_alias(index)} as {_plain(name)}" for index, name in enumerate(nodes)]
    return "\n".join(["sequenceDiagram", *shown, *steps, ""])


def _alias(node: int) -> str:
    return f"n{node}"


def _plain(text: str) -> str:
    """Shorten a text and replace characters with a meaning in Mermaid: `;` ends a statement, `#` begins an entity."""
    return text.replace(";", ",").replace("#", "no. ").replace("\n", " ")[:100]


def table(tape: Tape) -> str:
    """Return the tape as comma-separated values (RFC 4180), with one event and its sentence per line."""
    nodes, kinds, texts, partitions = map(list, (tape.nodes, tape.kinds, tape.texts, tape.partitions))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(["seconds", "node", "event", "partition", "key_moment", "sentence"])
    for index, at_us in enumerate(tape.at_us):
        node, partition = tape.node[index], tape.partition[index]
        row = [f"{at_us / 1e6:.6f}", nodes[node] if node != NOTHING else "", kinds[tape.kind[index]]]
        row += [partitions[partition] if partition != NOTHING else "", tape.key[index], texts[tape.text[index]]]
        writer.writerow(map(_harmless, row))
    return out.getvalue()


def _harmless(cell: str) -> str:
    """Escape text, such as the name of a client, that a spreadsheet would run as a formula."""
    return f"'{cell}" if cell[:1] in ("=", "+", "-", "@") else cell


EXPORTS: Mapping[str, tuple[str, Callable[[Tape], str]]] = {
    "perfetto": ("perfetto.json", perfetto),
    "shiviz": ("shiviz.log", shiviz),
    "mermaid": ("mermaid.mmd", mermaid),
    "csv": ("events.csv", table),
}
"""For each format, the name of the exported file and the function that returns its content."""

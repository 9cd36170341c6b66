"""The output of `highwater sweep`: one line per setting, commands to replay runs, and the paths of the results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from replica.wording import duration
from scenarios.observe.wording import count_of
from scenarios.terminal.style import Style, folded, table_lines

Row = Mapping[str, Any]

SETTINGS_SHOWN = 60
"""Largest number of settings in the printed table; the page and the Parquet table have all settings."""


def sweep_screen(document: Mapping[str, Any], style: Style) -> str:
    """Return the whole output of `highwater sweep`.

    Args:
        document: the document that `--format json` prints.
    """
    rows = document["settings"]
    dot = f" {style.sign('dot')} "
    head = [style.bold(document["scenario"]) + (f" ({document['variant']})" if document["variant"] else "")]
    head += [count_of(len(rows), "setting"), document["seeds"], count_of(document["runs"], "run")]
    lines = ["", f"  {dot.join(head)}", *_pace(document), ""]
    lines += _table(document["axes"], rows[:SETTINGS_SHOWN], style)
    if len(rows) > SETTINGS_SHOWN:
        lines.append(
            f"  and {count_of(len(rows) - SETTINGS_SHOWN, 'more setting')}, in the page and in the Parquet table"
        )
    lines += [
        "",
        "  In brackets: 95 % Wilson interval. ack: time from send to ack, over the acks of all runs",
        "",
    ]
    if all(row["endings"] == 1 < row["finished"] for row in rows):
        lines += ["  Every seed has the same result: no random choice affects the records here.", ""]
    for path, figures in document["without_difference"].items():
        what = "no difference" if figures == "any" else "no difference except to the ack latency"
        lines += [*folded(f"{path} made {what}.", style.width, "  ", "    "), ""]
    lines += _again("Smallest seed with a loss", rows, "losing", style)
    lines += _again("Runs that did not finish, or broke an invariant that the rules promise", rows, "unfinished", style)
    lines += [f"  Page:    {document['page']}", f"  Kept in  {document['folder']}"]
    return "\n".join([*lines, ""])


def _pace(document: Mapping[str, Any]) -> list[str]:
    played, kept = document["played"], document["runs"] - document["played"]
    parts = [f"{played:,} played now in {document['play_s']:.1f} s ({document['runs_per_hour']:,} per hour)"]
    if kept:
        parts = [f"{kept:,} kept from an earlier sweep", *(parts if played else [])]
    return [f"  {', '.join(parts)}"]


_HEAD = (
    ("", "runs"), ("runs that lost", "an acked record"), ("records", "lost"), ("acked, not", "readable"),
    ("never", "arrived"), ("dupli-", "cated"), ("no writes", "on average"), ("ack", "median"), ("ack", "99 %"),
    ("not", "finished"),
)  # fmt: skip
_LOST, _UNREADABLE, _UNFINISHED = 2, 3, 9


def _cells(row: Row, style: Style) -> list[str]:
    """Return the table cells with the results of one setting, without the cells for the setting itself."""
    none = style.sign("none")
    unfinished = row["runs"] - row["finished"]

    def time(column: str) -> str:
        return none if not row[column] else duration(row[column])

    return [
        f"{row['runs']:,}",
        _share(row, "loss") or none,
        f"{row['lost_records']:,}",
        f"{row['unseen_records']:,}",
        f"{row['missing_records']:,}",
        f"{row['duplicated_records']:,}",
        time("unavailable_mean_us"),
        time("ack_p50_us"),
        time("ack_p99_us"),
        f"{unfinished:,}" if unfinished else none,
    ]


def _share(row: Row, name: str) -> str:
    """Return a probability with its confidence interval, such as `3.1 % [2.1, 4.6]`."""
    if row[f"{name}_probability"] is None:
        return ""
    share, low, high = (_percent(row[f"{name}_{part}"]) for part in ("probability", "low", "high"))
    return f"{share} % [{low}, {high}]"


def _percent(share: float) -> str:
    return f"{100 * share:.1f}" if 0 < share < 1 else f"{100 * share:.0f}"


def _table(axes: Sequence[str], rows: Sequence[Row], style: Style) -> list[str]:
    figures = [_cells(row, style) for row in rows]
    rare = {
        _UNREADABLE: any(row["unseen_records"] for row in rows),
        _UNFINISHED: any(row["runs"] > row["finished"] for row in rows),
    }
    shown = [index for index in range(len(_HEAD)) if rare.get(index, True)]
    heads = [*map(_two_lines, axes), *(_HEAD[index] for index in shown)]
    values = [[setting.partition("=")[2] for setting in row["settings"]] for row in rows]
    body = [[*own, *(cells[index] for index in shown)] for own, cells in zip(values, figures, strict=True)]
    grid = [[upper for upper, _ in heads], [lower for _, lower in heads], *body]
    lines = table_lines(grid, right=range(len(axes), len(heads)))
    rule = "  " + style.sign("rule") * (max(map(len, lines)) - 2)
    for number, cells in enumerate(figures, 2):
        if cells[_LOST] != "0" or cells[_UNREADABLE] != "0":
            lines[number] = style.paint(lines[number], "red")
    return [*lines[:2], rule, *lines[2:], rule]


def _two_lines(label: str) -> tuple[str, str]:
    """Split a long label at the dot nearest to its middle: `min.insync.replicas` into `min.insync` and `.replicas`."""
    dots = [index for index, sign in enumerate(label) if sign == "." and index]
    if len(label) <= _LABEL_MAX or not dots:
        return "", label
    cut = min(dots, key=lambda index: abs(2 * index - len(label)))
    return label[:cut], label[cut:]


_LABEL_MAX = 12


def _again(title: str, rows: Sequence[Row], kind: str, style: Style) -> list[str]:
    """Return lines with a command for each setting that replays one run.

    Args:
        title: the heading of the lines.
        kind: `losing` or `unfinished`; the run with the smallest seed of this kind is replayed.
    """
    found = [row for row in rows if row[f"smallest_{kind}_seed"] is not None][:SETTINGS_SHOWN]
    if not found:
        return []
    lines = [f"  {title}:"]
    for row in found:
        if kind == "unfinished":
            lines += folded(str(row["unfinished_why"]), style.width - 6, "    ", "    ")
        lines.append(f"    {row[f'{kind}_replay']}")
    return [*lines, ""]

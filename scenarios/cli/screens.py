"""Finished runs as text: the screen of one run, a table of several, a line of `highwater test`, and JUnit XML.

All data comes from the summary (summary.json) or from the trace (story.Story). The screen of a run shows key events, a
drawing per partition, the acks that producers got beside the records in the logs, the findings in red or green, the
expectations of the scenario, and commands for more.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replica.ids import OUTSIDE, TopicPartition, client_of
from replica.rules import DEFAULT_PROFILE, KafkaRelease
from replica.trace.ranges import cropped, format_record_names, split_record_name
from replica.trace.signs import mark_places
from replica.wording import duration
from scenarios.check.verdict import HARMLESS_CLASSES
from scenarios.observe.availability import PATIENCE_US
from scenarios.observe.columns.names import count_different
from scenarios.observe.partition_histories import PartitionHistory
from scenarios.observe.story import Story, StoryGroup, grouped
from scenarios.observe.wording import acked_of, count_of, lost_words, played_by, settings_of
from scenarios.run.runs import RUNS_DIR
from scenarios.terminal.ribbon import ribbon
from scenarios.terminal.style import Style, folded, table_lines

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

Summary = Mapping[str, Any]

LINES_MAX = 30
"""Largest number of key events on a screen; the trace has the rest."""
PARTITIONS_MAX = 3
"""Largest number of partitions that a screen draws. Lists of losses and of times without writes also end here."""
UNREAD_MAX = 8
"""Largest number of rows for partitions in the table about a consumer group or share group."""
SENTENCE_LINES_MAX = 3
LIVE_LINES_MAX, SCREEN_LINES_MAX = 44, 110
"""A screen with more lines is shortened. Live runs have the lower limit, because their events were printed before."""
BRIEF_MAX, BRIEF_FINDINGS_MAX = 3, 10
"""Largest numbers of rows of each kind, and of lines of findings, on a shortened screen."""
LABEL_WIDTH_MAX = 44
"""Columns reserved for a label, which may contain long names; a longer label shifts the rest of its line."""
_MARGIN = 9


def run_screen(summary: Summary, story: Story, style: Style, again: str | None = None, *, verbose: bool = False) -> str:
    """Return the whole screen of `highwater run`, ending in a newline.

    Args:
        again: command that repeats the run; None if no command can.
        verbose: print every key event on a line of its own.
    """
    partitions = len(summary["logs"])
    places = mark_places(story.view.brokers)
    blocks = [
        _headline(summary, style),
        _key_events(story, style, again, verbose=verbose),
        *(ribbon(partition, history, story.end_us, places, style) for partition, history in _shown(summary, story)),
        _not_drawn(partitions),
        _acks_and_logs(summary, style),
        _unread(summary),
        _share_groups(summary),
        _findings(summary, style, names_partitions=partitions > 1),
        _expectations(summary, style),
        _see_also(summary, again),
    ]
    lines_max = LIVE_LINES_MAX if summary.get("live") else SCREEN_LINES_MAX
    if not verbose and sum(map(len, blocks)) > lines_max:
        blocks = _brief(summary, style, again)
    return "\n" + "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _brief(summary: Summary, style: Style, again: str | None) -> list[list[str]]:
    """Return a shortened screen for a run with too many lines, with the findings at its end.

    It leaves out key events and drawings, and has only the first rows of each kind with a count of the rest.
    """
    names_partitions = len(summary["logs"]) > 1
    findings = _findings(summary, style, names_partitions=names_partitions)
    more = len(findings) - BRIEF_FINDINGS_MAX
    if more > 0:
        kinds = Counter(anomaly["kind"] for anomaly in summary["anomalies"])
        counts = ", ".join(f"{kind} {number}" for kind, number in kinds.items())
        findings = [*findings[:BRIEF_FINDINGS_MAX], f"      anomalies by kind: {counts} ({_where_all_are(summary)})"]
    return [
        _headline(summary, style),
        _acks_and_logs(summary, style, BRIEF_MAX),
        _longest_unread(summary),
        _expectations(summary, style)[: BRIEF_MAX + 1],
        _see_also(summary, again),
        findings,
    ]


def _longest_unread(summary: Summary) -> list[str]:
    """Return lines about the partitions that were without a reader for the longest times, over all consumer groups."""
    waits = [
        (item["longest_us"], item["unread_us"], group, name)
        for group, partitions in summary.get("without_reader", {}).items()
        for name, item in partitions.items()
        if item["unread_us"]
    ]
    waits.sort(key=lambda wait: (-wait[0], *wait[2:]))
    lines = [
        f"  No reader of {name} in group {group}: longest {duration(longest)}, total {duration(in_all)}"
        for longest, in_all, group, name in waits[:BRIEF_MAX]
    ]
    if len(waits) > BRIEF_MAX:
        lines.append(f"  {_for_less_long(len(waits) - BRIEF_MAX)} ({_where_all_are(summary)})")
    return lines


def _headline(summary: Summary, style: Style) -> list[str]:
    name = summary["scenario"] + (f" ({summary['variant']})" if summary["variant"] else "")
    parts = [name, *settings_of(summary)]
    kind = "live" if summary.get("live") else "of virtual time"
    lasted = round(summary["virtual_s"], 1) if summary.get("live") else summary["virtual_s"]
    if "cut_short" in summary:
        kind += f" (cut short, planned: {summary['cut_short']['of_s']:g} s)"
    ran = f"{lasted:g} s {kind}, {summary['events']:,} events, in {summary['wall_s']:.2f} s"
    rules = [_played_by(summary), f"seed {summary['seed']}", ran]
    dot = f" {style.sign('dot')} "
    first, *rest = [*style.packed(parts, dot, 2), *style.packed(rules, dot, 2)]
    return [first.replace(name, style.bold(name), 1), *rest]


def _played_by(summary: Summary) -> str:
    """Return the era of Kafka whose rules the run followed, with a note if it is not the default era."""
    rules = played_by(summary)
    is_older = "real_kafka" not in summary and KafkaRelease.parsed(rules) < KafkaRelease.parsed(DEFAULT_PROFILE)
    return f"era {rules} (default: {DEFAULT_PROFILE})" if is_older else rules


def _key_events(story: Story, style: Style, again: str | None, *, verbose: bool) -> list[str]:
    """Return the lines of the key events.

    Args:
        again: command that repeats the run, to suggest its `-v`; None if no command can.
        verbose: print all events, each on a line of its own.
    """
    lines = []
    width = max(len(style.sign(line.sign)) for line in story.lines) if story.lines else 0
    groups = [StoryGroup(line, line.text, []) for line in story.lines] if verbose else grouped(story)
    shown = groups if verbose else groups[:LINES_MAX]
    for group in shown:
        at_us, sign, *_ = group.first
        mark = style.sign(sign).ljust(width)
        first, *rest = folded(group.text, style.width - _MARGIN - width - 5)
        lines.append(f"  {at_us / 1_000_000:>8.3f}  {style.paint(mark, COLOUR_OF.get(sign, 'dim'))} {first}")
        lines += [" " * (_MARGIN + width + 4) + line for line in rest]
    note = f"  {'':>8}  {style.sign('note').ljust(width)} "
    if len(groups) > len(shown):
        more = f"and {count_of(len(groups) - len(shown), 'more event')}"
        lines.append(f"{note}{more}; {'`highwater view` shows' if again is None else '-v shows'} all")
    elif again is not None and any(group.is_merged for group in groups):
        lines.append(f"{note}-v shows each event on its own line")
    return lines


COLOUR_OF = {
    "fault": "yellow",
    "down": "red",
    "lost": "red",
    "bad": "red",
    "offline": "red",
    "truncated": "yellow",
    "refused": "yellow",
    "elected": "bold",
}


# -------------------------------------------------------------------------------------------------------- the shape


def _shown(summary: Summary, story: Story) -> list[tuple[TopicPartition, PartitionHistory]]:
    """Return the partitions to draw: partitions with an anomaly first, then by the number of changes of state."""
    hurt = {anomaly["partition"] for anomaly in summary["anomalies"]}
    ranked = sorted(story.histories.items(), key=lambda item: (str(item[0]) not in hurt, -len(item[1].states), item[0]))
    return ranked[:PARTITIONS_MAX]


def _not_drawn(partitions: int) -> list[str]:
    more = partitions - PARTITIONS_MAX
    verb = "is" if more == 1 else "are"
    return [f"  {more} of {partitions} partitions {verb} not drawn; `highwater view` shows all"] if more > 0 else []


# ------------------------------------------------------------------------------------------------ promise and truth


def _acks_and_logs(summary: Summary, style: Style, producers_max: int | None = None) -> list[str]:
    rows = [*_producer_rows(summary, producers_max), ("The log says", "    ", _true(summary)), *_unwritten(summary)]
    width = max(24, min(max(len(label) for label, _, _ in rows) + 2, LABEL_WIDTH_MAX))
    lines = []
    for label, between, parts in rows:
        first, *rest = style.packed(parts, between, width + 2)
        lines += [f"  {label:<{width - 1}} {first.lstrip()}", *rest]
    return lines


_Row = tuple[str, str, Sequence[str]]
"""A row as (label, separator between the parts, parts)."""


def _producer_rows(summary: Summary, producers_max: int | None) -> Iterator[_Row]:
    """Yield rows with the records that each producer sent, and the acks and errors that it received.

    Args:
        producers_max: number of producers with rows of their own, starting with the most errors. One more row has
            the sums of the other producers. None gives every producer its own rows.
    """
    producers = list(summary["producers"].items())
    others = []
    if producers_max is not None:
        producers.sort(key=lambda item: (-sum(item[1]["errors"].values()), -item[1]["sent"]))
        producers, others = producers[:producers_max], producers[producers_max:]
    for producer, figures in producers:
        parts = [f"{figures['sent']} sent"]
        parts.append(f"{figures['handed_over']} with acks=0" if figures["handed_over"] else f"{figures['acked']} acked")
        if figures["failed"]:
            parts.append(f"{figures['failed']} failed")
        latency = figures["latency_us"]
        if latency and not figures["handed_over"]:
            where = " at the broker" if producer.startswith(OUTSIDE) else ""  # Its waits and retries are unknown.
            parts.append(f"ack{where} {duration(latency['p50'])} median, {duration(latency['max'])} worst")
        yield f"Records of {producer}", "    ", parts
        if figures["errors"]:
            yield "", ", ", [f"{error} x{count}" for error, count in figures["errors"].items()]
        if (client := client_of(producer)) != producer:
            yield "", "", [f"{producer} is another producer with client.id {client}"]
    if others:
        sums = {
            name: sum(figures[name] for _, figures in others) for name in ("sent", "acked", "handed_over", "failed")
        }
        words = {"handed_over": "with acks=0"}
        parts = [f"{number} {words.get(name, name)}" for name, number in sums.items() if number or name == "sent"]
        yield f"{count_of(len(others), 'more producer')}", "    ", parts


def _readable(summary: Summary) -> tuple[int, str]:
    """Return the number of distinct records in the logs that can be read, and a word for them.

    Records of aborted and open transactions count, although consumers with `read_committed` skip them.
    """
    count = sum(map(count_different, summary["logs"].values())) - len(summary["records"]["unseen"])
    return count, "readable or uncommitted" if "transactional.id" in summary["setting"] else "readable"


def _true(summary: Summary) -> list[str]:
    records = summary["records"]
    readable, what = _readable(summary)
    true = [f"{readable} {what}", f"{len(records['lost'])} lost", f"{len(records['duplicated'])} duplicated"]
    if records["missing"]:
        true.append(f"{len(records['missing'])} missing")
    return true + [f"{len(records[kind])} {kind}" for kind in HARMLESS_CLASSES if records.get(kind)]


def _unwritten(summary: Summary) -> Iterator[_Row]:
    unwritten = {
        partition: max(end_us - begin_us for begin_us, end_us in windows)
        for partition, windows in summary["unavailable"].items()
        if windows
    }
    for partition in sorted(unwritten, key=lambda name: -unwritten[name])[:PARTITIONS_MAX]:
        yield f"No write to {partition}", "", [f"for up to {duration(unwritten[partition])}, while records waited"]
    if len(unwritten) > PARTITIONS_MAX:
        yield "", "", [_for_less_long(len(unwritten) - PARTITIONS_MAX)]


def _for_less_long(partitions: int) -> str:
    return f"{count_of(partitions, 'more partition')}, for a shorter time"


def _unread(summary: Summary) -> list[str]:
    """Return a table of the times for which no member of a consumer group read a partition, by group and partition.

    A partition counts as unread while it is unassigned, or assigned to a member that is down or frozen.
    """
    rows: list[tuple[str, ...] | str] = []
    for group, partitions in summary.get("without_reader", {}).items():
        longest = sorted(partitions.items(), key=lambda item: -item[1]["unread_us"])
        rows.append((f"Time without a reader in {group}", "longest", "total", "observed", "moves"))
        for name, other in longest[:UNREAD_MAX]:
            times = (duration(other[what]) for what in ("longest_us", "unread_us", "observed_us"))
            rows.append((name, *times, str(other["moved"])))
        if len(longest) > UNREAD_MAX:
            rows.append(f"  {_for_less_long(len(longest) - UNREAD_MAX)}")
    return table_lines(rows, right=(1, 2, 3, 4), widest=LABEL_WIDTH_MAX)


def _share_groups(summary: Summary) -> list[str]:
    """Return a table of each share group's deliveries by outcome, with the offsets of records that were given up."""
    rows: list[tuple[str, ...] | str] = []
    for group, partitions in summary.get("share_groups", {}).items():
        rows.append((f"Share group {group}", "delivered", "again", "accepted", "rejected", "given up", "in flight"))
        for name, item in list(partitions.items())[:UNREAD_MAX]:
            counts = (item["delivered"], item["again"], item["accepted"], item["rejected"], len(item["given_up"]))
            rows.append((name, *map(str, counts), str(item["in_flight"])))
        for name, item in partitions.items():
            if offsets := item["given_up"]:
                more = f" and {len(offsets) - UNREAD_MAX} more" if len(offsets) > UNREAD_MAX else ""
                which = ", ".join(map(str, offsets[:UNREAD_MAX]))
                offsets_word = "offset" if len(offsets) == 1 else "offsets"
                rows.append(f"  {name}, given up after the last allowed delivery: {offsets_word} {which}{more}")
        if len(partitions) > UNREAD_MAX:
            rows.append(f"  {count_of(len(partitions) - UNREAD_MAX, 'more partition')} ({_where_all_are(summary)})")
    return table_lines(rows, right=(1, 2, 3, 4, 5, 6), widest=LABEL_WIDTH_MAX)


_TITLES = {
    "lost": "{lost}",
    "unseen": "{acked} THAT CANNOT BE READ",
    "dirty-read": "{records} READ, BUT NO LONGER IN THE LOG",
    "duplicated": "{records} STORED TWICE",
    "reordered": "{records} OUT OF ORDER",
    "poll-skip": "{records} SKIPPED BY A CONSUMER",
}


def _findings(summary: Summary, style: Style, *, names_partitions: bool) -> list[str]:
    """Return a red line for each anomaly, with its records, or one green line if there is none."""
    lines = []
    figures: Counter[str] = Counter()
    for anomaly in summary["anomalies"]:
        kind, names = anomaly["kind"], anomaly["records"]
        figures[kind] += 1
        if kind in _TITLES and figures[kind] > PARTITIONS_MAX:
            continue
        title = _TITLES.get(kind, kind.upper().replace("-", " ")).format(
            lost=lost_words(names, summary["records"]).upper() if kind == "lost" else "",
            acked=count_of(len(names), "acked record").upper(),
            records=count_of(len(names), "record").upper(),
        )
        shown = f": {_record_ranges(names)}" if names and kind in _TITLES else ""
        lines.append(style.paint(f"  {style.sign('bad' if style.plain else 'lost')} {title}{shown}", "red"))
        where = f"{anomaly['partition']}: " if names_partitions and anomaly["partition"] else ""
        sentence = folded(where + anomaly["sentence"], style.width - 8)
        lines += [f"      {line}" for line in sentence[:SENTENCE_LINES_MAX]]
        lines += [f"      ... ({_where_all_are(summary)})"] if len(sentence) > SENTENCE_LINES_MAX else []
    for kind, number in figures.items():
        if kind in _TITLES and number > PARTITIONS_MAX:
            others = count_of(number - PARTITIONS_MAX, "more partition")
            lines.append(f"      {kind}: also in {others} ({_where_all_are(summary)})")
    if not lines:
        promised = len(summary["records"]["acked"])
        words = f"NOTHING LOST of {count_of(promised, 'acked record')}" if promised else "NOTHING ACKED, NOTHING LOST"
        lines.append(style.paint(f"  {style.sign('good')} {words}", "green"))
    for client, why in list(summary.get("never_read", {}).items())[:PARTITIONS_MAX]:
        what = "READ OR WROTE NOTHING" if client.startswith(OUTSIDE) else "READ NOTHING"
        words = f"{style.sign('refused')} {client} {what}{f': {why}' if why else ''}"
        lines += [style.paint(line, "yellow") for line in folded(words, style.width - 4, "  ", " " * 6)]
    if summary["records"]["missing"]:
        words = f"missing, but never acked: {_record_ranges(summary['records']['missing'])}"
        lines += folded(words, style.width, " " * 6, " " * 8)
    return lines


def _record_ranges(names: Sequence[str]) -> str:
    """Return record names as ranges per producer. If there are very many ranges, keep the first few and the last."""
    return cropped(format_record_names(sorted(names, key=split_record_name)))


def _where_all_are(summary: Summary) -> str:
    return "full list: summary.json" if summary["run_dir"] else "full list: --format json"


def _expectations(summary: Summary, style: Style) -> list[str]:
    results = [result for result in summary["expectations"] if result.get("judged", True)]
    not_judged = [result for result in summary["expectations"] if not result.get("judged", True)]
    failed = [result for result in results if not result["held"]]
    lines = []
    if failed:
        verb = "does" if len(failed) == 1 else "do"
        words = f"{len(failed)} of {len(results)} expectations {verb} not hold"
        lines = [style.paint(f"  {style.sign('bad')} {words}", "red")]
    elif results:
        held = f"  {style.sign('good')} as the scenario expects ({len(results)} of {len(results)} hold)"
        lines = [style.paint(held, "green")]
    for result in [*failed, *not_judged]:
        text = f"{result['what']}: {result['why']}"
        lines += folded(text, style.width - 6, "      ", "        ")
    return lines


def _see_also(summary: Summary, again: str | None) -> list[str]:
    lines = []
    records = summary["records"]
    culprit = next((records[kind][0] for kind in ("lost", "unseen", "duplicated", "dirty") if records[kind]), None)
    broken = [item["sentence"].partition(":")[0] for item in summary["anomalies"] if item["kind"] == "invariant"]
    if culprit is None and broken:
        culprit = f'"{broken[0]}"' if " " in broken[0] else broken[0]
    if summary["run_dir"]:
        run = "last" if Path(summary["run_dir"]).parent == RUNS_DIR else shlex.quote(summary["run_dir"])
        if culprit is not None:
            lines.append(f"  Why:     highwater explain {run} {culprit}")
        lines.append(f"  See it:  highwater view {run} --open")
        lines.append(f"  Report:  highwater report {run}")
        lines.append(f"  Kept in  {summary['run_dir']}")
    if again is not None:
        lines.append(f"  Again:   {again}")
    return lines


# ----------------------------------------------------------------------------------------------------- several runs


def compare_table(summaries: Sequence[Summary], style: Style) -> str:
    """Return a table of a scenario's runs side by side, followed by the outcomes of the records in each run."""
    names = [_column_name(summary) for summary in summaries]
    first = summaries[0]
    lines = ["", f"  {style.bold(first['scenario'])} {style.sign('dot')} seed {first['seed']}", ""]
    columns = [(name, compared(summary, style)) for name, summary in zip(names, summaries, strict=True)]
    for label in _RARE:
        if all(column[label] == "0" for _, column in columns):
            for _, column in columns:
                del column[label]
    while columns:
        table, shown = table_of(columns, style)
        lines += [*table, ""]
        columns = columns[shown:]
    room = style.width - max(len(name) for name in names) - 6
    drawn: set[str] = set()
    rows = []
    for name, summary in zip(names, summaries, strict=True):
        words = _fates(summary)
        if signs := _signs(summary, room - len(words) - 3):
            drawn.update(signs)
            words = f"{''.join(map(style.sign, signs))}   {words}"
        rows.append((name, "\n".join(folded(words, room + 2))))
    rows += [("", f"{style.sign(sign)} {text}") for sign, text in _MEANING.items() if sign in drawn]
    return "\n".join([*lines, *table_lines(rows), ""])


def table_of(columns: Sequence[tuple[str, dict[str, str]]], style: Style) -> tuple[list[str], int]:
    """Return the lines of a table with as many columns as fit the screen, at least one, and the number of columns."""
    labels = list(dict.fromkeys(label for _, column in columns for label in column))
    label_width = max(len(label) for label in labels) + 2
    widths = [max(len(name), *map(len, column.values())) + 3 for name, column in columns]
    shown = max(sum(end <= style.width - label_width - 2 for end in accumulate(widths)), 1)
    widths = widths[:shown]
    rule = "  " + style.sign("rule") * (label_width + sum(widths))
    rows = [(" " * label_width, *(name for name, _ in columns[:shown]))]
    for label in labels:
        cells = [column.get(label, style.sign("none")) for _, column in columns[:shown]]
        rows.append((label, *(style.paint(cell, "red") if style.sign("lost") in cell else cell for cell in cells)))
    head, *lines = table_lines(rows, right=range(1, shown + 1), gap="   ")
    return [head, rule, *lines, rule], shown


def _column_name(summary: Summary) -> str:
    name = summary["variant"] or "as written"
    if "real_kafka" in summary:
        return f"{name} (Kafka {summary['real_kafka']})"
    return f"{name} (live)" if summary.get("live") else str(name)


_UNSEEN = "acked, cannot be read"
_OWED = "lost, never acked"
_RARE = (_UNSEEN, _OWED)
"""Labels of rows that are left out if all runs have 0 there."""


_THEN_LOST = "acked, then lost"
_LONG_UNREAD = f"unread for {duration(PATIENCE_US)} or more"
_DURATIONS = (
    "ack latency, median", "ack latency, worst", "no write succeeded for", "longest time unread", "mean time unread"
)  # fmt: skip
COMPARED_TIMES = (*_DURATIONS, "retries", _LONG_UNREAD)
"""Labels of figures that depend on time, so that even two live runs of the same scenario differ in them."""

Figure = int | str | None


def compared(summary: Summary, style: Style) -> dict[str, str]:
    """Return the column of a run in the table of `highwater compare`: the text of each cell, by the row's label."""
    return {name: _cell(name, figure, style) for name, figure in figures_of(summary).items()}


def _cell(name: str, figure: Figure, style: Style) -> str:
    if figure is None:
        return style.sign("none")
    if name == _THEN_LOST:
        return f"{style.sign('lost' if figure else 'good')} {figure}"
    return duration(figure) if name in _DURATIONS and isinstance(figure, int) else str(figure)


def figures_of(summary: Summary) -> dict[str, Figure]:
    """Return the figures of a run by label. Times are in microseconds; None means that the figure does not apply."""
    records = summary["records"]
    handed_over = sum(figures["handed_over"] for figures in summary["producers"].values())
    latencies = [figures["latency_us"] for figures in summary["producers"].values() if figures["latency_us"]]
    timed = latencies and not handed_over
    windows = [window[1] - window[0] for found in summary["unavailable"].values() for window in found]
    lost = len(acked_of(records["lost"], records))
    readable, what = _readable(summary)
    unread = [item for found in summary.get("without_reader", {}).values() for item in found.values()]
    return {
        "sent": records["sent"],
        "acked": "not asked" if handed_over else len(records["acked"]),
        _THEN_LOST: None if handed_over else lost,
        _OWED: len(records["lost"]) - lost,
        _UNSEEN: len(records["unseen"]),
        "missing": len(records["missing"]),
        f"{what} at the end": readable,
        "duplicated": len(records["duplicated"]),
        "ack latency, median": latencies[0]["p50"] if timed else None,
        "ack latency, worst": max(latency["max"] for latency in latencies) if timed else None,
        "retries": summary["retries"],
        "no write succeeded for": max(windows) if windows else None,
        **(_figures_of_groups(unread) if unread else {}),
        "verdict": ", ".join(summary["verdict"]) or "ok",
    }


def _figures_of_groups(unread: Sequence[Mapping[str, int]]) -> dict[str, Figure]:
    long = [item for item in unread if item["longest_us"] >= PATIENCE_US]
    return {
        _LONG_UNREAD: f"{len(long)} of {count_of(len(unread), 'partition')}",
        "longest time unread": max(item["longest_us"] for item in unread),
        "mean time unread": sum(item["unread_us"] for item in unread) // len(unread),
        "partitions moved": sum(item["moved"] for item in unread),
    }


_MEANING = {
    "no-ack-record": "not acked: failed, no response, or acks=0",
    "missing-record": "not acked, and in no log at the end",
    "unseen-record": "acked and in the log, but not readable",
}
"""Explanations of the signs for records that need one, by the sign's name."""


def _signs(summary: Summary, most: int) -> list[str]:
    """Return the name of each record's sign, in sending order; empty if there are more than `most` records."""
    records = summary["records"]
    fates = (records["acked"], records["failed"], records["unknown"])
    if sum(map(len, fates)) > most:
        return []
    order = sorted(chain(*fates), key=split_record_name)
    sign_of = dict.fromkeys(records["acked"], "good-record")
    sign_of |= dict.fromkeys(records["unseen"], "unseen-record")
    sign_of |= dict.fromkeys(records["missing"], "missing-record")
    sign_of |= dict.fromkeys(records["lost"], "gone-record")
    return [sign_of.get(name, "no-ack-record") for name in order]


def _fates(summary: Summary) -> str:
    """Return text that names the records with an anomaly, such as `r10..r14 lost`."""
    records = summary["records"]
    words = {"lost": "lost", "unseen": "cannot be read", "missing": "missing", "duplicated": "stored twice"}
    words |= {kind: kind for kind in HARMLESS_CLASSES}
    found = [f"{_record_ranges(records[kind])} {text}" for kind, text in words.items() if records.get(kind)]
    return "; ".join(found) or "nothing lost"


def era_line(summary: Summary, style: Style) -> str:
    """Return the line of `highwater test --profile` about a run under the rules of that era.

    If the run differs or fails, lines with the expectations that were not met follow.
    """
    name = summary["scenario"] + (f" / {summary['variant']}" if summary["variant"] else "")
    ending = summary["ending"]
    if ending == "not-applicable":
        return f"  {style.sign('step')} {name:<52} does not apply: {summary['why']}"
    bad = ending in ("failed", "broken")
    mark = style.paint(style.sign("bad"), "red") if bad else style.paint(style.sign("good"), "green")
    words = {
        "held": "expectations hold",
        "failed": "expectations do not hold",
        "same": "expectations of its own era hold",
        "differs": "expectations of its own era do not hold",
        "broken": "broke a promise of this era",
    }
    verdict = ", ".join(summary["verdict"]) or "ok"
    line = f"  {mark} {name:<52} {verdict:<24} {words[ending]}"
    if ending in ("held", "same"):
        return line
    return "\n".join([line, *(_expectations(summary, style)[1:])])


def test_line(summary: Summary, style: Style, command: str) -> str:
    """Return the line of `highwater test` about a run, followed by lines for the expectations that were not met.

    Args:
        command: command that plays the same run, for more details.
    """
    name = summary["scenario"] + (f" / {summary['variant']}" if summary["variant"] else "")
    held = summary["held"] and not summary["our_bug"]
    mark = style.paint(style.sign("good"), "green") if held else style.paint(style.sign("bad"), "red")
    verdict = ", ".join(summary["verdict"]) or "ok"
    lost = summary["records"]["lost"]
    if lost:
        verdict += f" {format_record_names(lost)}"
    line = f"  {mark} {name:<52} {verdict:<24} {summary['wall_s']:>6.2f} s"
    return "\n".join([line, *([] if held else [*_expectations(summary, style)[1:], f"      See it:  {command}"])])


# --------------------------------------------------------------------------------------------------------------- JUnit

_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_text(played: Sequence[tuple[Summary, str]], fail_on: Sequence[str] = ()) -> str:
    """Return runs as JUnit XML: a suite for each scenario with a test case for each variant.

    A run that broke an invariant is an error; a run with an unmet expectation is a failure.

    Args:
        played: pairs of a summary and the command that plays the run again.
        fail_on: kinds of anomalies that also count as failures.
    """
    from xml.etree.ElementTree import Element, SubElement

    root = Element("testsuites", name="highwater")
    suites: dict[str, Element] = {}
    for summary, command in played:
        name = summary["scenario"]
        suite = suites.get(name)
        if suite is None:
            suite = suites[name] = SubElement(root, "testsuite", name=name)
        case = SubElement(
            suite,
            "testcase",
            classname=name,
            name=_in_xml(summary["variant"] or "base"),
            time=f"{summary['wall_s']:.3f}",
        )
        results = [result for result in summary["expectations"] if not result["held"] and result.get("judged", True)]
        why = [f"{result['what']}: {result['why']}" for result in results]
        why += [f"{kind} happened" for kind in summary["verdict"] if {kind, "any"} & set(fail_on)]
        if summary["our_bug"] or why:
            found = [f"{anomaly['kind']}: {anomaly['sentence']}" for anomaly in summary["anomalies"]]
            child = SubElement(case, "error" if summary["our_bug"] else "failure")
            child.set("message", _in_xml(next(iter([*why, *found]), "an invariant broke")))
            child.text = _in_xml("\n".join([*why, *found, "", f"See it:  {command}"]))
    return _junit_document(root)


def junit_of_error(text: str, command: str) -> str:
    """Return JUnit XML for a command that failed before it had a result: one test case, with its message."""
    from xml.etree.ElementTree import Element, SubElement

    root = Element("testsuites", name="highwater")
    suite = SubElement(root, "testsuite", name="highwater")
    case = SubElement(suite, "testcase", classname="highwater", name=_in_xml(command), time="0.000")
    SubElement(case, "error", message=_in_xml(text.partition("\n")[0])).text = _in_xml(text)
    return _junit_document(root)


def _junit_document(root: Element) -> str:
    """Add counts and total times to the document and its suites, and return the XML as text."""
    from xml.etree.ElementTree import indent, tostring

    for element in (root, *root):
        cases = list(element.iter("testcase"))
        element.set("tests", str(len(cases)))
        for kind in ("failure", "error"):
            element.set(f"{kind}s", str(sum(case.find(kind) is not None for case in cases)))
        element.set("time", f"{sum(float(case.get('time', '0')) for case in cases):.3f}")
    indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + tostring(root, encoding="unicode")


def _in_xml(text: str) -> str:
    return _NOT_XML.sub("?", text)

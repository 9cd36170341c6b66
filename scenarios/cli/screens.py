"""Finished runs on the terminal: one run, several side by side, one line of `highwater test`.

Everything shown is in the summary (summary.json) or in the trace (story.Story). Order is deliberate: what happened, the
shape of it, promise against truth, the one red line, what the scenario expected, and how to see it again.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, chain
from pathlib import Path
from typing import Any

from replica.ids import OUTSIDE, TopicPartition, client_of
from replica.trace.ranges import cropped, format_record_names, split_record_name
from replica.trace.signs import mark_places
from replica.wording import duration
from scenarios.check.verdict import HARMLESS_CLASSES
from scenarios.language.spec import PROFILE
from scenarios.observe.availability import PATIENCE_US
from scenarios.observe.columns.names import count_different
from scenarios.observe.partition_histories import PartitionHistory
from scenarios.observe.story import Story, grouped, ungrouped
from scenarios.observe.wording import acked_of, count_of, lost_words, played_by, settings_of
from scenarios.run.runs import RUNS_DIR
from scenarios.terminal.ribbon import ribbon
from scenarios.terminal.style import Style, folded, table_lines

Summary = Mapping[str, Any]

LINES_MAX = 30
"""key events on a screen; the rest are in the trace"""
PARTITIONS_MAX = 3
"""of which the screen draws the shape, or says in words what they lost and how long nothing was written"""
UNREAD_MAX = 8
"""partitions of a group whose times unread the screen has"""
SENTENCE_LINES_MAX = 3
LIVE_LINES_MAX, SCREEN_LINES_MAX = 44, 110
"""lines of a screen, beyond which it is brief: a live run told its events as they came"""
BRIEF_MAX, BRIEF_FINDINGS_MAX = 3, 10
"""of each kind of row, and lines of findings, on a brief screen"""
LABEL_WIDTH_MAX = 44
"""columns of a label, which has names in it; a longer one moves what follows it on its line"""
_MARGIN = 9


def run_screen(summary: Summary, story: Story, style: Style, again: str | None = None, *, verbose: bool = False) -> str:
    """The whole screen of `highwater run`, ending in a newline. again: the command that gives the same run

    verbose: every key event on a line of its own
    """
    partitions = len(summary["logs"])
    places = mark_places(story.view.brokers)
    blocks = [
        _headline(summary, style),
        _key_events(story, style, again, names_partitions=partitions > 1, verbose=verbose),
        *(ribbon(partition, history, story.end_us, places, style) for partition, history in _shown(summary, story)),
        _not_drawn(partitions),
        _told_and_true(summary, style),
        _unread(summary),
        _findings(summary, style, names_partitions=partitions > 1),
        _expectations(summary, style),
        _see_also(summary, again),
    ]
    lines_max = LIVE_LINES_MAX if summary.get("live") else SCREEN_LINES_MAX
    if not verbose and sum(map(len, blocks)) > lines_max:
        blocks = _brief(summary, style, again)
    return "\n" + "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _brief(summary: Summary, style: Style, again: str | None) -> list[list[str]]:
    """The screen of a run with more to say than a screen holds: what was promised and broken, what waited longest, and
    how much more there is. The verdict comes last."""
    names_partitions = len(summary["logs"]) > 1
    findings = _findings(summary, style, names_partitions=names_partitions)
    more = len(findings) - BRIEF_FINDINGS_MAX
    if more > 0:
        kinds = Counter(anomaly["kind"] for anomaly in summary["anomalies"])
        counts = ", ".join(f"{kind} {number}" for kind, number in kinds.items())
        findings = [*findings[:BRIEF_FINDINGS_MAX], f"      all anomalies: {counts} ({_where_all_are(summary)})"]
    return [
        _headline(summary, style),
        _told_and_true(summary, style, BRIEF_MAX),
        _longest_unread(summary),
        _expectations(summary, style)[: BRIEF_MAX + 1],
        _see_also(summary, again),
        findings,
    ]


def _longest_unread(summary: Summary) -> list[str]:
    """Of all groups, the partitions that had no reader for longest; those read all the time are none."""
    waits = [
        (one["longest_us"], one["unread_us"], group, name)
        for group, partitions in summary.get("unread", {}).items()
        for name, one in partitions.items()
        if one["unread_us"]
    ]
    waits.sort(key=lambda wait: (-wait[0], *wait[2:]))
    lines = [
        f"  No reader in {group} of {name}: {duration(longest)} at a stretch, {duration(in_all)} in all"
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
        kind += f" (cut short, of {summary['cut_short']['of_s']:g} s)"
    ran = f"{lasted:g} s {kind}, {summary['events']:,} events, in {summary['wall_s']:.2f} s"
    rules = [_played_by(summary), f"seed {summary['seed']}", ran]
    dot = f" {style.sign('dot')} "
    first, *rest = [*style.packed(parts, dot, 2), *style.packed(rules, dot, 2)]
    return [first.replace(name, style.bold(name), 1), *rest]


def _played_by(summary: Summary) -> str:
    """The era whose rules were played; says so where they are not the rules of files without `profile`."""
    rules = played_by(summary)
    return rules if rules == PROFILE or "real_kafka" in summary else f"era {rules} (the newest: {PROFILE})"


def _key_events(story: Story, style: Style, again: str | None, *, names_partitions: bool, verbose: bool) -> list[str]:
    """again: None for a run that no command gives once more, so that none can show more of it on the terminal"""
    lines = []
    width = max(len(style.sign(line.sign)) for line in story.lines) if story.lines else 0
    groups = ungrouped(story) if verbose else grouped(story)
    shown = groups if verbose else groups[:LINES_MAX]
    for group in shown:
        at_us, sign, _ = group.first
        text = group.text(names_partitions=names_partitions)
        mark = style.sign(sign).ljust(width)
        first, *rest = folded(text, style.width - _MARGIN - width - 5)
        lines.append(f"  {at_us / 1_000_000:>8.3f}  {style.paint(mark, COLOUR_OF.get(sign, 'dim'))} {first}")
        lines += [" " * (_MARGIN + width + 4) + line for line in rest]
    note = f"  {'':>8}  {style.sign('note').ljust(width)} "
    if len(groups) > len(shown):
        more = f"and {count_of(len(groups) - len(shown), 'event')} more"
        lines.append(f"{note}{more}; {'`highwater view` has' if again is None else '-v shows'} them all")
    elif again is not None and any(group.is_merged for group in groups):
        lines.append(f"{note}-v shows every event on a line of its own")
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
    """The partitions with an anomaly first, then those with most changes."""
    hurt = {anomaly["partition"] for anomaly in summary["anomalies"]}
    ranked = sorted(story.histories.items(), key=lambda item: (str(item[0]) not in hurt, -len(item[1].states), item[0]))
    return ranked[:PARTITIONS_MAX]


def _not_drawn(partitions: int) -> list[str]:
    more = partitions - PARTITIONS_MAX
    verb = "is" if more == 1 else "are"
    return [f"  {more} of the {partitions} partitions {verb} not drawn: `highwater view` has all"] if more > 0 else []


# ------------------------------------------------------------------------------------------------ promise and truth


def _told_and_true(summary: Summary, style: Style, producers_max: int | None = None) -> list[str]:
    rows = [*_told(summary, producers_max), ("The log says", "    ", _true(summary)), *_unwritten(summary)]
    width = max(24, min(max(len(label) for label, _, _ in rows) + 2, LABEL_WIDTH_MAX))
    lines = []
    for label, between, parts in rows:
        first, *rest = style.packed(parts, between, width + 2)
        lines += [f"  {label:<{width - 1}} {first.lstrip()}", *rest]
    return lines


_Row = tuple[str, str, Sequence[str]]
"""A label, what stands between its parts, and the parts."""


def _told(summary: Summary, producers_max: int | None) -> Iterator[_Row]:
    """producers_max: so many of them, those that sent most, and a row for the others; None: all"""
    producers = list(summary["producers"].items())
    others = []
    if producers_max is not None:
        producers.sort(key=lambda item: (-sum(item[1]["errors"].values()), -item[1]["sent"]))
        producers, others = producers[:producers_max], producers[producers_max:]
    for producer, told in producers:
        parts = [f"{told['sent']} sent"]
        parts.append(f"{told['handed_over']} handed over" if told["handed_over"] else f"{told['acked']} acked")
        if told["failed"]:
            parts.append(f"{told['failed']} refused")
        latency = told["latency_us"]
        if latency and not told["handed_over"]:
            parts.append(f"ack {duration(latency['p50'])} median, {duration(latency['max'])} worst")
        yield f"Records of {producer}", "    ", parts
        if told["errors"]:
            yield "", ", ", [f"{error} x{count}" for error, count in told["errors"].items()]
        if (client := client_of(producer)) != producer:
            yield "", "", [f"{producer} is another producer with the client.id of {client}"]
    if others:
        sums = {name: sum(told[name] for _, told in others) for name in ("sent", "acked", "handed_over", "failed")}
        parts = [f"{number} {name.replace('_', ' ')}" for name, number in sums.items() if number or name == "sent"]
        yield f"{count_of(len(others), 'more producer')}", "    ", parts


def _readable(summary: Summary) -> tuple[int, str]:
    """How many records the logs have for some reader, and what they are: those of aborted and of open transactions
    count, which readers of committed records do not get."""
    count = sum(map(count_different, summary["logs"].values())) - len(summary["records"]["unseen"])
    return count, "readable or uncommitted" if "transactional.id" in summary["setting"] else "readable"


def _true(summary: Summary) -> list[str]:
    records = summary["records"]
    readable, what = _readable(summary)
    true = [f"{readable} {what}", f"{len(records['lost'])} lost", f"{len(records['duplicated'])} duplicated"]
    if records["missing"]:
        true.append(f"{len(records['missing'])} never arrived")
    return true + [f"{len(records[kind])} {kind}" for kind in HARMLESS_CLASSES if records.get(kind)]


def _unwritten(summary: Summary) -> Iterator[_Row]:
    unwritten = {
        partition: max(end_us - begin_us for begin_us, end_us in windows)
        for partition, windows in summary["unavailable"].items()
        if windows
    }
    for partition in sorted(unwritten, key=lambda name: -unwritten[name])[:PARTITIONS_MAX]:
        yield f"No write to {partition}", "", [f"{duration(unwritten[partition])} at a stretch, while records waited"]
    if len(unwritten) > PARTITIONS_MAX:
        yield "", "", [_for_less_long(len(unwritten) - PARTITIONS_MAX)]


def _for_less_long(partitions: int) -> str:
    return f"{count_of(partitions, 'more partition')}, for a shorter time"


def _unread(summary: Summary) -> list[str]:
    """How long no member of a group read which partition: it had no reader, or its reader was down or frozen."""
    rows: list[tuple[str, ...] | str] = []
    for group, partitions in summary.get("unread", {}).items():
        longest = sorted(partitions.items(), key=lambda item: -item[1]["unread_us"])
        rows.append((f"No reader in {group}", "at a stretch", "in all", "of", "times moved"))
        for name, one in longest[:UNREAD_MAX]:
            times = (duration(one[what]) for what in ("longest_us", "unread_us", "observed_us"))
            rows.append((name, *times, str(one["moved"])))
        if len(longest) > UNREAD_MAX:
            rows.append(f"  {_for_less_long(len(longest) - UNREAD_MAX)}")
    return table_lines(rows, right=(1, 2, 3, 4), widest=LABEL_WIDTH_MAX)


_TITLES = {
    "lost": "{lost}",
    "unseen": "{acked} THAT CANNOT BE READ",
    "dirty-read": "{records} READ THAT THE LOG NO LONGER HAS",
    "duplicated": "{records} STORED TWICE",
    "reordered": "{records} OUT OF ORDER",
    "poll-skip": "{records} SKIPPED BY A CONSUMER",
}


def _findings(summary: Summary, style: Style, *, names_partitions: bool) -> list[str]:
    """The red lines with their records, or the green one."""
    lines = []
    told: Counter[str] = Counter()
    for anomaly in summary["anomalies"]:
        kind, names = anomaly["kind"], anomaly["records"]
        told[kind] += 1
        if kind in _TITLES and told[kind] > PARTITIONS_MAX:
            continue
        title = _TITLES.get(kind, kind.upper().replace("-", " ")).format(
            lost=lost_words(names, summary["records"]).upper(),
            acked=count_of(len(names), "acked record").upper(),
            records=count_of(len(names), "record").upper(),
        )
        shown = f": {_record_ranges(names)}" if names and kind in _TITLES else ""
        lines.append(style.paint(f"  {style.sign('bad' if style.plain else 'lost')} {title}{shown}", "red"))
        where = f"{anomaly['partition']}: " if names_partitions and anomaly["partition"] else ""
        sentence = folded(where + anomaly["sentence"], style.width - 8)
        lines += [f"      {line}" for line in sentence[:SENTENCE_LINES_MAX]]
        lines += [f"      ... ({_where_all_are(summary)})"] if len(sentence) > SENTENCE_LINES_MAX else []
    for kind, number in told.items():
        if kind in _TITLES and number > PARTITIONS_MAX:
            others = count_of(number - PARTITIONS_MAX, "partition")
            lines.append(f"      {kind}: also in {others} more ({_where_all_are(summary)})")
    if not lines:
        promised = len(summary["records"]["acked"])
        words = (
            f"NOTHING LOST of {count_of(promised, 'acked record')}" if promised else "NOTHING PROMISED, NOTHING BROKEN"
        )
        lines.append(style.paint(f"  {style.sign('good')} {words}", "green"))
    for client, why in list(summary.get("never_read", {}).items())[:PARTITIONS_MAX]:
        what = "READ OR WROTE NOTHING" if client.startswith(OUTSIDE) else "READ NOTHING"
        words = f"{style.sign('refused')} {client} {what}{f': {why}' if why else ''}"
        lines += [style.paint(line, "yellow") for line in folded(words, style.width - 4, "  ", " " * 6)]
    if summary["records"]["missing"]:
        words = f"never arrived, and never promised: {_record_ranges(summary['records']['missing'])}"
        lines += folded(words, style.width, " " * 6, " " * 8)
    return lines


def _record_ranges(names: Sequence[str]) -> str:
    """Ranges per producer; of very many the first few and the last."""
    return cropped(format_record_names(sorted(names, key=split_record_name)))


def _where_all_are(summary: Summary) -> str:
    return "all are in summary.json" if summary["run_dir"] else "--format json has all"


def _expectations(summary: Summary, style: Style) -> list[str]:
    results = [result for result in summary["expectations"] if result.get("judged", True)]
    not_judged = [result for result in summary["expectations"] if not result.get("judged", True)]
    failed = [result for result in results if not result["held"]]
    lines = []
    if failed:
        lines = [style.paint(f"  {style.sign('bad')} {len(failed)} of {len(results)} expectations do not hold", "red")]
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
    broken = [one["sentence"].partition(":")[0] for one in summary["anomalies"] if one["kind"] == "invariant"]
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
    """The variants of one scenario side by side, then the fate of every record in each."""
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
    """The first of the columns, and how many of them fit."""
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
"""Rows that are there only if one of the runs has such records."""


_THEN_LOST = "acked, then lost"
_LONG_UNREAD = f"unread for {duration(PATIENCE_US)} or more"
_DURATIONS = (
    "ack latency, median", "ack latency, worst", "no write succeeded for", "unread at a stretch, worst", "unread, mean"
)  # fmt: skip
COMPARED_TIMES = (*_DURATIONS, "retries", _LONG_UNREAD)
"""Figures that differ between any two runs by the clock."""

Figure = int | str | None


def compared(summary: Summary, style: Style) -> dict[str, str]:
    """By name the rows of its column."""
    return {name: _cell(name, figure, style) for name, figure in figures_of(summary).items()}


def _cell(name: str, figure: Figure, style: Style) -> str:
    if figure is None:
        return style.sign("none")
    if name == _THEN_LOST:
        return f"{style.sign('lost' if figure else 'good')} {figure}"
    return duration(figure) if name in _DURATIONS and isinstance(figure, int) else str(figure)


def figures_of(summary: Summary) -> dict[str, Figure]:
    """By name; times in microseconds, None where there is nothing to count."""
    records = summary["records"]
    handed_over = sum(told["handed_over"] for told in summary["producers"].values())
    latencies = [told["latency_us"] for told in summary["producers"].values() if told["latency_us"]]
    timed = latencies and not handed_over
    windows = [window[1] - window[0] for found in summary["unavailable"].values() for window in found]
    lost = len(acked_of(records["lost"], records))
    readable, what = _readable(summary)
    unread = [one for found in summary.get("unread", {}).values() for one in found.values()]
    return {
        "sent": records["sent"],
        "acked": "not asked" if handed_over else len(records["acked"]),
        _THEN_LOST: None if handed_over else lost,
        _OWED: len(records["lost"]) - lost,
        _UNSEEN: len(records["unseen"]),
        "never arrived": len(records["missing"]),
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
    long = [one for one in unread if one["longest_us"] >= PATIENCE_US]
    return {
        _LONG_UNREAD: f"{len(long)} of {count_of(len(unread), 'partition')}",
        "unread at a stretch, worst": max(one["longest_us"] for one in unread),
        "unread, mean": sum(one["unread_us"] for one in unread) // len(unread),
        "partitions moved": sum(one["moved"] for one in unread),
    }


_MEANING = {
    "step": "no ack: refused, not answered, or not asked for",
    "unseen-record": "acked and in the log, but it cannot be read",
}
"""Of those signs of records that say less than a tick and a cross."""


def _signs(summary: Summary, most: int) -> list[str]:
    """The sign of each record, in sending order; none where there are more than `most`."""
    records = summary["records"]
    fates = (records["acked"], records["failed"], records["unknown"])
    if sum(map(len, fates)) > most:
        return []
    order = sorted(chain(*fates), key=split_record_name)
    sign_of = dict.fromkeys(records["acked"], "good-record")
    sign_of |= dict.fromkeys(records["unseen"], "unseen-record")
    sign_of |= dict.fromkeys(chain(records["lost"], records["missing"]), "gone-record")
    return [sign_of.get(name, "step") for name in order]


def _fates(summary: Summary) -> str:
    """What became of the records that are not simply there, by name."""
    records = summary["records"]
    words = {"lost": "lost", "unseen": "cannot be read", "missing": "never arrived", "duplicated": "twice"}
    words |= {kind: kind for kind in HARMLESS_CLASSES}
    found = [f"{_record_ranges(records[kind])} {text}" for kind, text in words.items() if records.get(kind)]
    return "; ".join(found) or "nothing lost"


def era_line(summary: Summary, style: Style) -> str:
    """One line of `highwater test --profile`: how the scenario ends in that era."""
    name = summary["scenario"] + (f" / {summary['variant']}" if summary["variant"] else "")
    ending = summary["ending"]
    if ending == "not-applicable":
        return f"  {style.sign('step')} {name:<52} does not apply: {summary['why']}"
    bad = ending in ("failed", "broken")
    mark = style.paint(style.sign("bad"), "red") if bad else style.paint(style.sign("good"), "green")
    words = {
        "held": "written for it, held",
        "failed": "written for it, does not hold",
        "same": "ends as written",
        "differs": "differs",
        "broken": "broke a promise of this era",
    }
    verdict = ", ".join(summary["verdict"]) or "ok"
    line = f"  {mark} {name:<52} {verdict:<24} {words[ending]}"
    if ending in ("held", "same"):
        return line
    return "\n".join([line, *(_expectations(summary, style)[1:])])


def test_line(summary: Summary, style: Style) -> str:
    """One line of `highwater test`; below it, indented, the expectations that do not hold."""
    name = summary["scenario"] + (f" / {summary['variant']}" if summary["variant"] else "")
    held = summary["held"] and not summary["our_bug"]
    mark = style.paint(style.sign("good"), "green") if held else style.paint(style.sign("bad"), "red")
    verdict = ", ".join(summary["verdict"]) or "ok"
    lost = summary["records"]["lost"]
    if lost:
        verdict += f" {format_record_names(lost)}"
    line = f"  {mark} {name:<52} {verdict:<24} {summary['wall_s']:>6.2f} s"
    return "\n".join([line, *(_expectations(summary, style)[1:] if not held else [])])

"""Broken invariants and the missing rules to blame as text, 80-100 columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from replica.trace.events import InvariantBroken, RunStarted, TraceRow
from replica.wording import listed
from scenarios.check.promises import Gap
from scenarios.explain.blame import Blame, Suspects, remedies
from scenarios.observe.wording import count_of
from scenarios.terminal.style import Style, folded

_WIDTH = 96


@dataclass(frozen=True, slots=True)
class Findings:
    """The missing rules: the ones to blame, or only the suspects where finding out would take long.

    runs: how often the run was played again, or would have to be
    """

    blames: tuple[Blame, ...] = ()
    suspects: tuple[Suspects, ...] = ()
    runs: int = 0

    @property
    def text(self) -> str:
        if self.suspects:
            names = listed([suspect.invariant for suspect in self.suspects])
            return f"\n  Which missing rule broke {names} takes {self.runs} long runs to find out: add --what-if.\n"
        return blame_text(self.blames, self.runs) if self.blames else ""

    def as_json(self) -> list[dict[str, Any]]:
        unknown = [{"invariant": one.invariant, "suspects": list(remedies(one.gaps))} for one in self.suspects]
        return [*(blame.as_json() for blame in self.blames), *unknown]


def blame_text(blames: Sequence[Blame], runs: int) -> str:
    """The effect of each missing rule. runs: how often the run was played again to find out"""
    lines = ["", f"  Played again {count_of(runs, 'time')} with the same seed and rules of newer eras added:"]
    alike: dict[tuple[tuple[Gap, ...], tuple[Gap, ...], bool | None], list[str]] = {}
    for blame in blames:
        alike.setdefault((blame.to_blame, blame.innocent, blame.together), []).append(blame.invariant)
    for (to_blame, innocent, together), invariants in alike.items():
        lines += ["", *_verdict(listed(invariants), to_blame, innocent, together)]
    return "\n".join([*lines, ""])


def _verdict(names: str, to_blame: Sequence[Gap], innocent: Sequence[Gap], together: bool | None) -> Iterator[str]:
    if to_blame:
        yield f"    {names}: kept by {'any of these alone' if len(to_blame) > 1 else 'this alone'}"
        for gap in to_blame:
            yield from _rule(gap)
        if innocent:
            yield from _wrapped(f"and not by {_settings(innocent)}", 6)
    elif together is None:
        yield f"    {names}: not even kept by the one rule that could, {_settings(innocent)}"
    else:
        how = "all of them together do" if together else "all of them together do not either"
        yield f"    {names}: kept by none alone; {how}"
        for gap in innocent:
            yield from _rule(gap)


def _rule(gap: Gap) -> Iterator[str]:
    yield from _wrapped(f"{gap.remedy}   {gap.rule}", 6)


def _settings(missing: Sequence[Gap]) -> str:
    return listed(list(dict.fromkeys(gap.remedy for gap in missing)))


def _wrapped(text: str, indent: int) -> Iterator[str]:
    yield from folded(text, _WIDTH, " " * indent, " " * (indent + 2))


def invariant_text(rows: Sequence[TraceRow], invariant: str, style: Style) -> str:
    """Where and when an invariant broke, and the rules that the run lacks."""
    started = next(row.event for row in rows if isinstance(row.event, RunStarted))
    dot = style.sign("dot")
    name = started.scenario if started.variant is None else f"{started.scenario}, {started.variant}"
    headline = style.bold(f"  Why {invariant} is broken")
    lines = ["", f"{headline}    {name} {dot} {started.profile} {dot} seed {started.seed}", ""]
    for row in rows:
        if isinstance(row.event, InvariantBroken) and row.event.invariant == invariant:
            sign = style.sign("decisive")
            first, *rest = folded(row.event.reason, _WIDTH - 14)
            lines.append(f"  {sign} {row.at_us / 1_000_000:>7.3f}  {first}")
            lines += [f"{' ' * 13}{line}" for line in rest]
            if row.event.promised:
                lines.append(f"{' ' * 13}The rules of the run promise it: this is a bug of Highwater.")
    return "\n".join([*lines, ""])

"""Find the missing rule to blame for a broken invariant, by repeating the run with one more rule each time.

`promises.py` knows which rules could have prevented the failure. Usually only one of them would have done so in a given
run. A rule is to blame if the run with that rule added, and the same seed, does not break the invariant.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from replica.rules import Rules
from replica.trace.events import InvariantBroken, RunStarted, TraceRow
from replica.wording import listed
from scenarios.check.promises import Circumstances, Gap, gaps
from scenarios.explain.what_if import SettingsChange
from scenarios.language.diagnostics import ScenarioInvalid
from scenarios.language.parse.loading import load_text
from scenarios.observe.wording import count_of
from scenarios.process.pool import in_order
from scenarios.terminal.style import Style, folded

EVENTS_MAX = 400_000
"""Largest number of events in all repeated runs without --what-if: about half a minute on one core."""


@dataclass(frozen=True, slots=True)
class Suspects:
    """A broken invariant that the rules of the run do not promise, and the missing rules that promise it."""

    invariant: str
    gaps: tuple[Gap, ...]


@dataclass(frozen=True, slots=True)
class Blame:
    """The effect that adding missing rules had on one broken invariant.

    Attributes:
        to_blame: rules that each keep the invariant when added alone.
        innocent: rules that do not keep the invariant when added alone, or cannot be added alone.
        together: True if all rules together keep the invariant, False if they do not; None if one rule alone does, or
            if there is only one rule.
    """

    invariant: str
    to_blame: tuple[Gap, ...]
    innocent: tuple[Gap, ...]
    together: bool | None

    def as_json(self) -> dict[str, Any]:
        return {
            "invariant": self.invariant,
            "to_blame": [gap.remedy for gap in self.to_blame],
            "not_to_blame": [gap.remedy for gap in self.innocent],
            "together": self.together,
        }


def suspects_of(rows: Iterable[TraceRow], rules: Rules) -> list[Suspects]:
    """Return each broken invariant with the missing rules that promise it, in the order in which they broke.

    Invariants that the run's rules promise are left out (a bug in Highwater broke them), and so are invariants that no
    rules promise (that is Kafka's behaviour).
    """
    found: dict[str, tuple[Gap, ...]] = {}
    circumstances = Circumstances()
    for row in rows:
        circumstances(row)
        if isinstance(row.event, InvariantBroken) and not row.event.promised:
            found.setdefault(row.event.invariant, gaps(rules, row.event.invariant, circumstances.seen))
    return [Suspects(invariant, missing) for invariant, missing in found.items() if missing]


def additions(suspects: Sequence[Suspects]) -> list[SettingsChange]:
    """Return the changes to run: each missing rule alone, and all missing rules of each invariant together."""
    alone = {gap.remedy: None for suspect in suspects for gap in suspect.gaps}
    together = {remedies(suspect.gaps): None for suspect in suspects}
    return [
        SettingsChange(", ".join(added), added) for added in dict.fromkeys([*((item,) for item in alone), *together])
    ]


def remedies(missing: Iterable[Gap]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(gap.remedy for gap in missing))


def blame(suspects: Sequence[Suspects], broken_with: Mapping[tuple[str, ...], tuple[str, ...] | None]) -> list[Blame]:
    """Return for each broken invariant which missing rules are to blame.

    Args:
        broken_with: invariants that broke in a run with added rules, by these rules; None if the run was not possible.
    """
    return [_blame(suspect, broken_with) for suspect in suspects]


def _blame(suspect: Suspects, broken_with: Mapping[tuple[str, ...], tuple[str, ...] | None]) -> Blame:
    def keeps(added: tuple[str, ...]) -> bool:
        broken = broken_with[added]
        return broken is not None and suspect.invariant not in broken

    to_blame = tuple(gap for gap in suspect.gaps if keeps((gap.remedy,)))
    innocent = tuple(gap for gap in suspect.gaps if gap not in to_blame)
    all_of_them = remedies(suspect.gaps)
    together = None if to_blame or len(all_of_them) < 2 else keeps(all_of_them)
    return Blame(suspect.invariant, to_blame, innocent, together)


def play_additions(
    lock_text: str, changes: Sequence[SettingsChange], processes: int
) -> Iterator[tuple[tuple[str, ...], tuple[str, ...] | None]]:
    """Run the scenario with each change. Yield (settings, broken invariants), with None if the run is not possible.

    Args:
        lock_text: content of the run's scenario.lock.yaml.
    """
    return in_order(_play, [(lock_text, change) for change in changes], processes)


def _play(job: tuple[str, SettingsChange]) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    from scenarios.run.cluster_under_test import NotPossibleNow
    from scenarios.run.runner import run_scenario

    lock_text, change = job
    settings = [f"protocol.{setting}" for setting in change.settings]
    try:
        scenario = load_text(lock_text, "scenario.lock.yaml", settings).scenario
        result = run_scenario(scenario, runs_dir=None, traced=False)
    except (ScenarioInvalid, NotPossibleNow):
        return change.settings, None
    return change.settings, tuple(dict.fromkeys(event.invariant for event in result.broken))


def can_be_afforded(events: int, changes: Sequence[SettingsChange]) -> bool:
    """Return True if a run of `events` events is short enough to repeat it with all changes without --what-if."""
    return events * len(changes) <= EVENTS_MAX


# ------------------------------------------------------------------------------------------------------------- in words
#
# Broken invariants and the missing rules to blame as text of 80 to 100 columns.

_WIDTH = 96


@dataclass(frozen=True, slots=True)
class Findings:
    """The missing rules to blame, or only the suspects if finding out would take long.

    Attributes:
        runs: number of repeated runs that were made or would be needed.
    """

    blames: tuple[Blame, ...] = ()
    suspects: tuple[Suspects, ...] = ()
    runs: int = 0

    @property
    def text(self) -> str:
        if self.suspects:
            names = listed([suspect.invariant for suspect in self.suspects])
            return f"\n  {self.runs} more long runs can find the missing rule that broke {names}: add --what-if.\n"
        return blame_text(self.blames, self.runs) if self.blames else ""

    def as_json(self) -> list[dict[str, Any]]:
        unknown = [
            {"invariant": suspect.invariant, "suspects": list(remedies(suspect.gaps))} for suspect in self.suspects
        ]
        return [*(blame.as_json() for blame in self.blames), *unknown]


def blame_text(blames: Sequence[Blame], runs: int) -> str:
    """Return a text about the effect of each missing rule in `runs` repeated runs."""
    lines = [
        "",
        f"  Played again {count_of(runs, 'time')} with the same seed, each time with rules of newer eras added:",
    ]
    alike: dict[tuple[tuple[Gap, ...], tuple[Gap, ...], bool | None], list[str]] = {}
    for blame in blames:
        alike.setdefault((blame.to_blame, blame.innocent, blame.together), []).append(blame.invariant)
    for (to_blame, innocent, together), invariants in alike.items():
        lines += ["", *_verdict(listed(invariants), to_blame, innocent, together)]
    return "\n".join([*lines, ""])


def _verdict(names: str, to_blame: Sequence[Gap], innocent: Sequence[Gap], together: bool | None) -> Iterator[str]:
    if to_blame:
        yield f"    {names}: kept by {'each of these rules alone' if len(to_blame) > 1 else 'this rule alone'}"
        for gap in to_blame:
            yield from _rule(gap)
        if innocent:
            yield from _wrapped(f"but not by {_settings(innocent)}", 6)
    elif together is None:
        yield f"    {names}: not kept by the only candidate, {_settings(innocent)}"
    else:
        how = "all of them together keep it" if together else "not even by all of them together"
        yield f"    {names}: kept by no rule alone; {how}"
        for gap in innocent:
            yield from _rule(gap)


def _rule(gap: Gap) -> Iterator[str]:
    yield from _wrapped(f"{gap.remedy}   {gap.rule}", 6)


def _settings(missing: Sequence[Gap]) -> str:
    return listed(list(dict.fromkeys(gap.remedy for gap in missing)))


def _wrapped(text: str, indent: int) -> Iterator[str]:
    yield from folded(text, _WIDTH, " " * indent, " " * (indent + 2))


def invariant_text(rows: Sequence[TraceRow], invariant: str, style: Style) -> str:
    """Return a text that says when and why an invariant broke."""
    started = next(row.event for row in rows if isinstance(row.event, RunStarted))
    dot = style.sign("dot")
    name = started.scenario if started.variant is None else f"{started.scenario}, {started.variant}"
    headline = style.bold(f"  Why {invariant} was broken")
    lines = ["", f"{headline}    {name} {dot} {started.profile} {dot} seed {started.seed}", ""]
    for row in rows:
        if isinstance(row.event, InvariantBroken) and row.event.invariant == invariant:
            sign = style.sign("decisive")
            first, *rest = folded(row.event.sentence(), _WIDTH - 14)
            lines.append(f"  {sign} {row.at_us / 1_000_000:>7.3f}  {first}")
            lines += [f"{' ' * 13}{line}" for line in rest]
            if row.event.promised:
                lines.append(f"{' ' * 13}The rules of the run promise it, so this is a bug in Highwater.")
    return "\n".join([*lines, ""])

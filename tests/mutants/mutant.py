"""One safety rule, with the change of source that takes it out, and what notices that it is gone."""

from __future__ import annotations

from dataclasses import dataclass

from mutate import Edit


@dataclass(frozen=True)
class Mutant:
    """caught_by: `run: check`, runs as `mutate.play` names them; each check fails without the rule, and not with it."""

    name: str
    rule: str
    edits: tuple[Edit, ...]
    caught_by: tuple[str, ...]


def mutant(name: str, rule: str, module: str, old: str, new: str, *caught_by: str) -> Mutant:
    return Mutant(name, rule, (Edit(module, old, new),), caught_by)

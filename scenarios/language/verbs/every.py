"""All verbs there are, by name and in groups, in the order of LANGUAGE.md."""

from __future__ import annotations

import inspect
from types import ModuleType

from scenarios.language.verbs import checks, clients, clock, cluster, disk, network, process
from scenarios.language.verbs.declaration import Declaration, Lasts, Verb


def _declared_in(module: ModuleType) -> tuple[Declaration, ...]:
    classes = [made for made in vars(module).values() if inspect.isclass(made) and made.__module__ == module.__name__]
    return tuple(made.declaration for made in classes if issubclass(made, Verb))


GROUPS: dict[str, tuple[Declaration, ...]] = {
    module.__name__.rpartition(".")[2]: _declared_in(module)
    for module in (process, network, disk, clock, cluster, clients, checks)
}
VERBS: dict[str, Declaration] = {verb.name: verb for group in GROUPS.values() for verb in group}

# What readers of a trace ask; it may be damaged, or of another version, so they ask with a word that may be no verb.
QUIET = tuple(verb.name for verb in VERBS.values() if not verb.disturbs)
TOLD_BY_THEIR_NODE = tuple(verb.name for verb in VERBS.values() if verb.told_by_node)
STAYING = tuple(verb.name for verb in VERBS.values() if verb.lasts in (Lasts.UNTIL_ENDED, Lasts.FOR_GOOD))
"""In force until the trace says that it ended."""

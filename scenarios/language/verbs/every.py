"""All verbs there are, by name and in groups, in the order of LANGUAGE.md."""

from __future__ import annotations

import inspect
from types import ModuleType

from scenarios.language.verbs import checks, clients, clock, cluster, disk, network, process
from scenarios.language.verbs.declaration import Declaration, Verb


def _declared_in(module: ModuleType) -> tuple[Declaration, ...]:
    classes = [made for made in vars(module).values() if inspect.isclass(made) and made.__module__ == module.__name__]
    return tuple(made.declaration for made in classes if issubclass(made, Verb))


GROUPS: dict[str, tuple[Declaration, ...]] = {
    module.__name__.rpartition(".")[2]: _declared_in(module)
    for module in (process, network, disk, clock, cluster, clients, checks)
}
VERBS: dict[str, Declaration] = {verb.name: verb for group in GROUPS.values() for verb in group}

"""All verbs by name and in groups, in the order of LANGUAGE.md, and the steps that commands describe."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Sequence
from types import ModuleType
from typing import Any

from scenarios.language.diagnostics import did_you_mean
from scenarios.language.values.synonyms import FIELD_SYNONYMS, NOT_PLAYED
from scenarios.language.verbs import checks, clients, clock, cluster, disk, network, process, requests
from scenarios.language.verbs.command_words import SETTING_WORD, TIME_WORD, ShorthandError, ShorthandWords, listed
from scenarios.language.verbs.declaration import Declaration, Lasts, Verb


def _declared_in(module: ModuleType) -> tuple[Declaration, ...]:
    classes = [made for made in vars(module).values() if inspect.isclass(made) and made.__module__ == module.__name__]
    return tuple(made.declaration for made in classes if issubclass(made, Verb) and "declaration" in vars(made))


GROUPS: dict[str, tuple[Declaration, ...]] = {
    module.__name__.rpartition(".")[2]: _declared_in(module)
    for module in (process, network, requests, disk, clock, cluster, clients, checks)
}
VERBS: dict[str, Declaration] = {verb.name: verb for group in GROUPS.values() for verb in group}

# Readers of a trace look verbs up here by name. The trace may be damaged or from another version, with unknown verbs.
QUIET = tuple(verb.name for verb in VERBS.values() if not verb.effect.disturbs)
TOLD_BY_THEIR_NODE = tuple(verb.name for verb in VERBS.values() if verb.effect.told_by_node)
STAYING = tuple(verb.name for verb in VERBS.values() if verb.effect.lasts in (Lasts.UNTIL_ENDED, Lasts.FOR_GOOD))
"""Verbs whose effect lasts until the trace reports its end, or for good."""


# ------------------------------------------------------------------------------------------------------ a step in words
#
# The words of a command become a step of the language: `cut b1-b3 3s` is `{cut: {between: [b1, b3]}, for: 3s}`.
#
# Only the shape is checked here. Wrong names and numbers are reported when the step is read.

Step = dict[str, Any]


def step_of(words: Sequence[str], nodes: Collection[str], lasts: str | None, label: str | None) -> Step:
    """Return the step that the words of a command describe.

    Args:
        words: a verb and its arguments.
        nodes: names of the nodes of the cluster.
        lasts: value of `for`; None to look for a time among the words.
        label: value of `as`.

    Raises:
        ShorthandError: the words do not describe a step.
    """
    verb = words[0].replace("-", "_")
    if verb not in VERBS:
        if verb in NOT_PLAYED:
            raise ShorthandError(f"`{verb}` is not yet supported", NOT_PLAYED[verb])
        meant = did_you_mean(verb, VERBS, FIELD_SYNONYMS)
        hint = f"did you mean `{meant}`?" if meant else f"choose one of {', '.join(VERBS)}"
        raise ShorthandError(f"unknown fault `{words[0]}`", hint)
    declaration = VERBS[verb]
    values = ShorthandWords(verb, declaration.usage, list(words[1:]), nodes)
    settings = values.settings()
    if settings and verb not in ("set_config", "set_quota", "update_features"):
        # Any verb can be written with the fields of the language.
        plain = [word for word in values.left if not SETTING_WORD.fullmatch(word)]
        if plain:
            raise values.wrong(
                f"`{plain[0]}` cannot be combined with fields such as `{next(iter(settings))}=`: use fields only"
            )
        value: object = {key: listed(text) for key, text in settings.items()}
        values.left = []
    else:
        value = declaration.made.of_words(values)
    if lasts is None:
        lasts = values.take_if(TIME_WORD.fullmatch)
    if values.left:
        raise values.wrong(f"`{verb}` does not take `{values.left[0]}`")
    step: Step = {verb: value}
    if lasts is not None:
        step["for"] = lasts
    if label is not None:
        step["as"] = label
    return step

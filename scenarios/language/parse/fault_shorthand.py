"""ShorthandWords of a command line as a step of the language: `cut b1-b3 3s` is `{cut: {between: [b1, b3]}, for: 3s}`.

Only the shape is checked here. The language reports a wrong name or number, with the step as its place.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from scenarios.language.diagnostics import did_you_mean
from scenarios.language.values.synonyms import FIELD_SYNONYMS
from scenarios.language.verbs.command_words import SETTING_WORD, TIME_WORD, ShorthandError, ShorthandWords, listed
from scenarios.language.verbs.every import VERBS

Step = dict[str, Any]


def step_of(words: Sequence[str], nodes: Collection[str], lasts: str | None, label: str | None) -> Step:
    """The step that the words stand for.

    words: a verb and what it needs     nodes: names of the cluster     lasts, label: `for` and `as`
    raises: ShorthandError
    """
    verb = words[0].replace("-", "_")
    if verb not in VERBS:
        meant = did_you_mean(verb, VERBS, FIELD_SYNONYMS)
        hint = f"did you mean `{meant}`?" if meant else f"there are {', '.join(VERBS)}"
        raise ShorthandError(f"unknown fault `{words[0]}`", hint)
    declaration = VERBS[verb]
    given = ShorthandWords(verb, declaration.usage, list(words[1:]), nodes)
    settings = given.settings()
    if settings and verb not in ("set_config", "set_quota", "update_features"):
        # Any verb can be written with the language's own fields.
        plain = [word for word in given.left if not SETTING_WORD.fullmatch(word)]
        if plain:
            raise given.wrong(
                f"`{plain[0]}` stands beside fields such as `{next(iter(settings))}=`: write one or the other"
            )
        value: object = {key: listed(text) for key, text in settings.items()}
        given.left = []
    else:
        value = declaration.made.of_words(given)
    if lasts is None:
        lasts = given.take_if(TIME_WORD.fullmatch)
    if given.left:
        raise given.wrong(f"`{verb}` has no use for `{given.left[0]}`")
    step: Step = {verb: value}
    if lasts is not None:
        step["for"] = lasts
    if label is not None:
        step["as"] = label
    return step

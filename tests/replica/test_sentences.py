"""Sentences of the classes of events: whatever a trace from outside holds, each has one, and none raises."""

from __future__ import annotations

import itertools
import typing
from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any

import pytest

from replica.causes import Cause
from replica.trace import events as trace

SOME: dict[type, list[Any]] = {bool: [False, True], int: [0, 7], str: ["", "b{1}"]}


def values(hint: Any) -> list[Any]:
    """Every cause, and of other types some values, the empty ones first."""
    if typing.get_origin(hint) is typing.Annotated:
        hint = typing.get_args(hint)[0]
    kinds = typing.get_args(hint)
    if type(None) in kinds:
        return [None, *values(next(kind for kind in kinds if kind is not type(None)))]
    if typing.get_origin(hint) in (tuple, Sequence):
        return [(), tuple(values(kinds[0])[:2]) * 2]
    if issubclass(hint, Cause):
        return list(hint)
    return SOME[hint]


def made(kind: type[trace.TraceEvent]) -> Iterator[trace.TraceEvent]:
    """Each column has each of its values once, and those with causes meet all empty and all full other columns."""
    hints = typing.get_type_hints(kind, include_extras=True)
    of = {field.name: values(hints[field.name]) for field in fields(kind)}
    for place, (name, found) in itertools.product((0, -1), of.items()):
        others = {other: known[place] for other, known in of.items()}
        for value in found:
            yield kind(**others | {name: value})


@pytest.mark.parametrize("kind", trace.EVENT_CLASSES)
def test_every_event_has_a_sentence(kind: type[trace.TraceEvent]) -> None:
    for event in made(kind):
        assert isinstance(event.sentence(), str)

"""Listeners: objects that take the events of a trace, each kind by the methods that are declared for it.

    class Deaths(Listener):
        @on(NodeStopped)
        def _stopped(self, row: TraceRow, event: NodeStopped) -> None: ...

What is called with a kind of event is found out once; an event then costs the calls of its methods and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, overload

if TYPE_CHECKING:
    from replica.trace.events import TraceRow

A = TypeVar("A")
B = TypeVar("B")
S = TypeVar("S")
E = TypeVar("E")
Method = TypeVar("Method", bound=Callable[..., None])
Takes = Callable[[S, "TraceRow", E], None]
Handler = Callable[["TraceRow", Any], None]
"""Takes an event in its place, and the event itself."""


@overload
def on(kind: type[A], /) -> Callable[[Takes[S, A]], Takes[S, A]]: ...
@overload
def on(one: type[A], other: type[B], /) -> Callable[[Takes[S, A | B]], Takes[S, A | B]]: ...
@overload
def on(*kinds: type) -> Callable[[Method], Method]: ...
def on(*kinds: type) -> Callable[[Any], Any]:
    """Declare a method (row, event) to take events of these kinds, and of kinds derived from them."""

    def declare(method: Any) -> Any:
        method.takes = kinds
        return method

    return declare


class Listener:
    """Its methods take an event in the order of their definition, those of its bases first, and before them all the
    listeners in `parts`. One that goes by more than the kind of an event overrides `handlers_of`."""

    _methods: ClassVar[dict[str, tuple[type, ...]]] = {}
    parts: Sequence[Listener] = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        members = (member for base in reversed(cls.__mro__) for member in vars(base).items())
        cls._methods = {name: member.takes for name, member in members if hasattr(member, "takes")}

    def handlers_of(self, kind: type) -> tuple[Handler, ...]:
        """Asked once for each kind."""
        own = (getattr(self, name) for name, kinds in self._methods.items() if issubclass(kind, kinds))
        return (*(handler for part in self.parts for handler in part.handlers_of(kind)), *own)

    def __call__(self, row: TraceRow) -> None:
        for handler in self._routes[type(row.event)]:
            handler(row, row.event)

    @cached_property
    def _routes(self) -> Routes:
        return Routes([self])


class Routes(dict[type, tuple[Handler, ...]]):
    """What is called with each kind of event, listener by listener; one that is a plain function takes every row.

    Who has nothing for an event that stands for many (its class has `SINGLE`, their kind) gets these one by one.
    """

    def __init__(self, listeners: Iterable[Callable[[TraceRow], None]]) -> None:
        super().__init__()
        self._listeners = tuple(listeners)

    def __missing__(self, kind: type) -> tuple[Handler, ...]:
        self[kind] = found = tuple(handler for one in self._listeners for handler in _handlers_of(one, kind))
        return found


def _handlers_of(listener: Callable[[TraceRow], None], kind: type) -> Iterable[Handler]:
    single = getattr(kind, "SINGLE", None)
    if isinstance(listener, Listener) and (found := listener.handlers_of(kind)):
        return found
    if single is not None:
        return (partial(_one_by_one, handler) for handler in _handlers_of(listener, single))
    return () if isinstance(listener, Listener) else (lambda row, event: listener(row),)


def _one_by_one(handler: Handler, row: TraceRow, many: Any) -> None:
    for one in many.rows(row):
        handler(one, one.event)

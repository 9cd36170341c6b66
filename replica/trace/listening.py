"""Listeners: objects with methods that are called for the events of a trace, by kind of event.

    class Deaths(Listener):
        @on(NodeStopped)
        def _stopped(self, row: TraceRow, event: NodeStopped) -> None: ...

The methods for a kind of event are looked up once. After that, each event costs only the calls of these methods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
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
"""A function that is called with a row and the row's event."""


@overload
def on(kind: type[A], /) -> Callable[[Takes[S, A]], Takes[S, A]]: ...
@overload
def on(item: type[A], other: type[B], /) -> Callable[[Takes[S, A | B]], Takes[S, A | B]]: ...
@overload
def on(*kinds: type) -> Callable[[Method], Method]: ...
def on(*kinds: type) -> Callable[[Any], Any]:
    """Decorate a method (row, event) so that it is called for events of these classes and their subclasses."""

    def declare(method: Any) -> Any:
        method.takes = kinds
        return method

    return declare


class Listener:
    """Base class of listeners.

    For each event, first the listeners in `parts` are called, then this listener's methods in the order of their
    definition, those of base classes first. A listener that does not select events by class overrides `handlers_of`.
    """

    _methods: ClassVar[dict[str, tuple[type, ...]]] = {}
    parts: Sequence[Listener] = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        members = (member for base in reversed(cls.__mro__) for member in vars(base).items())
        cls._methods = {name: member.takes for name, member in members if hasattr(member, "takes")}

    def handlers_of(self, kind: type) -> tuple[Handler, ...]:
        """Return the handlers for a class of events. This is called once per class."""
        own = (getattr(self, name) for name, kinds in self._methods.items() if issubclass(kind, kinds))
        return (*(handler for part in self.parts for handler in part.handlers_of(kind)), *own)

    def __call__(self, row: TraceRow) -> None:
        for handler in self._routes[type(row.event)]:
            handler(row, row.event)

    @cached_property
    def _routes(self) -> Routes:
        return Routes([self])


class Routes(dict[type, tuple[Handler, ...]]):
    """The handlers for each class of events, in the order of the listeners. A plain function gets every row."""

    def __init__(self, listeners: Iterable[Callable[[TraceRow], None]]) -> None:
        super().__init__()
        self._listeners = tuple(listeners)

    def __missing__(self, kind: type) -> tuple[Handler, ...]:
        self[kind] = found = tuple(handler for listener in self._listeners for handler in _handlers_of(listener, kind))
        return found


def _handlers_of(listener: Callable[[TraceRow], None], kind: type) -> tuple[Handler, ...]:
    return listener.handlers_of(kind) if isinstance(listener, Listener) else (lambda row, event: listener(row),)

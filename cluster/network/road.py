"""The way from machine to machine over their network cards, and the clock that drives these."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from cluster.network.cards import Card, Lane, Parcel, Piece
from cluster.network.world import Time


class Road:
    """The frames of one end of a connection pass it in order: through its machine's card, then the other's.

    Simplified: data that waits in a card leaves even if the machine loses its power; connecting takes cards no time.
    """

    def __init__(self, time: Time, source: Card | None, target: Card | None) -> None:
        """None: a machine whose card is never short of anything"""
        self._time = time
        self._out = None if source is None else source.out
        self._into = None if target is None else target.into
        self._entered_us = 0

    def carry(self, size_bytes: int, delay_us: int, arrive: Callable[[], None], cause: int | None) -> None:
        """delay_us: between the two cards     arrive: called when the last byte is there"""
        left = partial(self._left, delay_us, arrive)
        now_us = self._time.now_us
        cause = self._time.cause if cause is None else cause
        if self._out is None:
            left(Piece(Parcel(0, cause), size_bytes, now_us, now_us, True))
        else:
            self._load(self._out, Parcel(size_bytes, cause, begins=left))

    def _left(self, delay_us: int, arrive: Callable[[], None], piece: Piece) -> None:
        """A piece begins to leave: when does it begin to come in? A card that is faster than the first waits for it."""
        takes_us = 0 if self._into is None else self._into.takes_us(piece.size_bytes)
        enters_us = max(piece.begins_us, piece.ends_us - takes_us) + delay_us
        self._entered_us = enters_us = max(enters_us, self._entered_us)
        cause = piece.parcel.cause
        if self._into is not None:

            def passed(entered: Piece) -> None:
                if piece.is_last and entered.is_last:
                    arrive()

            entering = Parcel(piece.size_bytes, cause, ends=passed)
            self._time.at(enters_us, partial(self._load, self._into, entering), cause)
        elif piece.is_last:
            self._time.at(enters_us, arrive, cause)

    def _load(self, lane: Lane, parcel: Parcel) -> None:
        if lane.add(self, parcel, self._time.now_us):
            self._began(lane)

    def _began(self, lane: Lane) -> None:
        piece = lane.current
        if piece is not None:
            self._time.at(piece.ends_us, partial(self._through, lane, piece), piece.parcel.cause)
            if piece.parcel.begins is not None:
                piece.parcel.begins(piece)

    def _through(self, lane: Lane, piece: Piece) -> None:
        lane.advance()
        self._began(lane)
        if piece.parcel.ends is not None:
            piece.parcel.ends(piece)

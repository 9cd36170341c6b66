"""Lines for the viewer of a live cluster. The viewer may stop reading at any time: the cluster does not wait."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import trio

from scenarios.observe.story import StoryLine

WAITING_MAX = 500
"""So many lines wait for a reader; of more, the oldest are left out."""
PAUSE_S = 0.05

SayLine = Callable[[StoryLine], None]


class LineWriter:
    """A write to a terminal that was stopped, or to a pipe without a reader, blocks: a thread does it."""

    def __init__(self, say_line: SayLine) -> None:
        self._say_line = say_line
        self._waiting: deque[StoryLine] = deque(maxlen=WAITING_MAX)
        self._left_out = 0

    def tell(self, line: StoryLine) -> None:
        self._left_out += len(self._waiting) == WAITING_MAX
        self._waiting.append(line)

    async def run(self) -> None:
        """Key events are many only when much is going wrong, so a look now and then will do."""
        while True:
            await trio.sleep(PAUSE_S)
            if self._waiting:
                lines, left_out = list(self._waiting), self._left_out
                self._waiting.clear()
                self._left_out = 0
                await trio.to_thread.run_sync(self._say, lines, left_out, abandon_on_cancel=True)

    def _say(self, lines: list[StoryLine], left_out: int) -> None:
        if left_out:
            self._say_line(StoryLine(lines[0].at_us, "note", f"{left_out} lines are left out: no reader took them"))
        for line in lines:
            self._say_line(line)

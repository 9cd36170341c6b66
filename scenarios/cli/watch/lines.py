"""A watch where nothing can be redrawn: one line for each partition whose trouble has changed."""

from __future__ import annotations

import time

from replica.ids import TopicPartition
from scenarios.cli.watch.screen import Trouble, TroubleOf, standings
from scenarios.terminal.style import Style
from scenarios.watch.cluster_watch import ClusterWatch
from scenarios.watch.watched import broker_name, names_of

LINES_AT_ONCE = 20


class Lines:
    """Remembers what it has said."""

    def __init__(self, style: Style) -> None:
        self._style = style
        self._said: dict[TopicPartition, str] = {}
        self._silent: dict[int, None] = {}

    def news(self, watch: ClusterWatch, now_us: int) -> list[str]:
        """At most LINES_AT_ONCE lines and one that counts the rest."""
        at = time.strftime("%H:%M:%S")
        found = [f"{at}  {text}" for text in self._brokers(watch)]
        worst, _ = standings(watch, now_us, len(watch.partitions))
        first_look = not self._said
        for standing in worst:
            said = self._state(standing)
            name = standing.known.name
            if self._said.get(name) != said and not (first_look and standing.trouble is Trouble.NONE):
                found.append(f"{at}  {name}: {said}" + (f" ({standing.words})" if standing.words else ""))
            self._said[name] = said
        self._said = {name: said for name, said in self._said.items() if name in watch.partitions}
        left = len(found) - LINES_AT_ONCE
        return found if left <= 0 else [*found[:LINES_AT_ONCE], f"{at}  and {left:,} more changes"]

    def _brokers(self, watch: ClusterWatch) -> list[str]:
        silent = {known.broker_id: None for known in watch.brokers.values() if known.silent_since_us is not None}
        texts = [
            f"{broker_name(one)} does not answer ({watch.brokers[one].silence})"
            for one in silent
            if one not in self._silent
        ]
        texts += [f"{broker_name(one)} answers again" for one in self._silent if one not in silent]
        self._silent = silent
        return texts

    def _state(self, standing: TroubleOf) -> str:
        """Without what moves all the time."""
        answer = standing.known.answer
        leader = f"leader {broker_name(answer.leader)}" if answer.leader >= 0 else "no leader"
        isr = ",".join(names_of(answer.isr)) or "empty"
        held = ", HW held" if standing.trouble is Trouble.HELD else ""
        return f"{leader}, epoch {standing.known.leader_epoch}, ISR {isr}{held}"

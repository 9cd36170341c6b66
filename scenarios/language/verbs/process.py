"""Verbs of processes: nodes start, stop, crash and freeze."""

from __future__ import annotations

from typing import Literal

from scenarios.language.selectors import Selector
from scenarios.language.values.trees import time_text
from scenarios.language.verbs.declaration import LASTING, Effect, Lasts, Verb, key, verb
from scenarios.language.verbs.kinds import ALL_BROKERS, OnNodes, choice, time

WaitFor = Literal["isr", "unfenced", "nothing"]

TOLD = Effect(told_by_node=True)
DOWN = Effect(undoable=True, lasts=Lasts.WHILE_DOWN, told_by_node=True)


@verb("start", example="b1", usage="start b1", effect=TOLD)
class Start(OnNodes):
    """Start nodes that are down; the step fails if one is up. A node that is shutting down starts afterwards."""


@verb("stop", example="b1", usage="stop b1", effect=DOWN)
class Stop(OnNodes):
    """Controlled shutdown (SIGTERM). A client closes: it finishes what it was asked for, aborts an open transaction and
    leaves its group."""


@verb("kill", example='"leader(t-0)"', usage="kill 'leader(orders-0)'", effect=DOWN)
class Kill(OnNodes):
    """SIGKILL: connections close immediately, the page cache survives. What is down stays down."""


@verb("power_off", example="[b1, b2]", usage="power_off b1 5s", effect=DOWN)
class PowerOff(OnNodes):
    """Power failure: the broker is gone without notice to any node, and every byte that was not flushed is lost."""

    nodes: Selector = key(ALL_BROKERS, bare=True)


@verb("pause", example="b1", usage="pause b2 3s", effect=Effect(undoable=True, lasts=Lasts.WHILE_PAUSED))
class Pause(OnNodes):
    """SIGSTOP: the process is suspended, its connections stay open."""


@verb("resume", example="b1", usage="resume b2")
class Resume(OnNodes):
    """SIGCONT: a paused process continues."""


@verb("restart", example="c1r", usage="restart b1", effect=TOLD)
class Restart(OnNodes):
    """Kill and start immediately: a client forgets everything, a broker keeps its disk."""


@verb(
    "rolling_restart",
    example="[b1, b2, b3]",
    more={
        "{brokers: rack(A), wait_for: unfenced, down: 10s, pause: 5s, timeout: 2m}": (
            "Wait only until the broker is unfenced (with `nothing`, do not wait). `down` is the time that each broker"
            " stays down, `pause` the time before the next broker."
        )
    },
    usage="rolling_restart b1 b2 b3",
    effect=LASTING,
)
class RollingRestart(Verb):
    """Stop and start brokers in order, one after another, each once the ISRs of their partitions are complete."""

    brokers: Selector = key(ALL_BROKERS, bare=True)
    wait_for: WaitFor = key(choice("isr", "unfenced", "nothing"), default="isr")
    down_us: int = key(time(0, example="10s"), "down", default=0)
    pause_us: int = key(time(0, example="5s"), "pause", default=0)
    timeout_us: int = key(time(example="2m"), "timeout", default=300_000_000)

    def sentence(self) -> str:
        waiting = {
            "isr": "waiting each time until the ISRs are complete",
            "unfenced": "waiting each time until the broker is unfenced",
            "nothing": "without waiting",
        }
        down = f", each down for {time_text(self.down_us)}" if self.down_us else ""
        pause = f", with a pause of {time_text(self.pause_us)}" if self.pause_us else ""
        return f"restart {self.brokers} one after another, {waiting[self.wait_for]}{down}{pause}"


@verb("wipe", example="b1", usage="wipe b1", effect=Effect(lasts=Lasts.WHILE_DOWN))
class Wipe(OnNodes):
    """Replace the disk of a broker that is down by an empty, formatted one."""

    nodes: Selector = key(ALL_BROKERS, bare=True)

    def sentence(self) -> str:
        return f"wipe the disk of {self.nodes}"

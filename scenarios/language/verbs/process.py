"""Process: nodes start, stop, die, freeze."""

from __future__ import annotations

from scenarios.language.selectors import Selector
from scenarios.language.verbs.declaration import Lasts, Verb, key, verb
from scenarios.language.verbs.kinds import ALL_BROKERS, NODES


@verb("start", example="b1", usage="start b1", told_by_node=True)
class Start(Verb):
    """Start what is down; the step fails if it runs already. What still shuts down in order starts once it is down."""

    nodes: Selector = key(NODES, bare=True)

    def sentence(self) -> str:
        return f"start {self.nodes}"


@verb("stop", example="b1", usage="stop b1", undoable=True, lasts=Lasts.WHILE_DOWN, told_by_node=True)
class Stop(Verb):
    """Controlled shutdown (SIGTERM). A client closes: it finishes what it was asked for, aborts an open transaction and
    leaves its group."""

    nodes: Selector = key(NODES, bare=True)

    def sentence(self) -> str:
        return f"stop {self.nodes}"


@verb(
    "kill",
    example='"leader(t-0)"',
    usage="kill 'leader(orders-0)'",
    undoable=True,
    lasts=Lasts.WHILE_DOWN,
    told_by_node=True,
)
class Kill(Verb):
    """SIGKILL: connections close at once, the page cache survives. What is down stays down."""

    nodes: Selector = key(NODES, bare=True)

    def sentence(self) -> str:
        return f"kill {self.nodes}"


@verb(
    "power_off", example="[b1, b2]", usage="power_off b1 5s", undoable=True, lasts=Lasts.WHILE_DOWN, told_by_node=True
)
class PowerOff(Verb):
    """Gone without a word to any other node, and with it every byte that was not flushed."""

    nodes: Selector = key(ALL_BROKERS, bare=True)

    def sentence(self) -> str:
        return f"power off {self.nodes}"


@verb("pause", example="b1", usage="pause b2 3s", undoable=True, lasts=Lasts.WHILE_PAUSED)
class Pause(Verb):
    """SIGSTOP: the process stands still, its connections stay open."""

    nodes: Selector = key(NODES, bare=True)

    def sentence(self) -> str:
        return f"pause {self.nodes}"


@verb("resume", example="b1", usage="resume b2")
class Resume(Verb):
    """SIGCONT: a paused process goes on."""

    nodes: Selector = key(NODES, bare=True)

    def sentence(self) -> str:
        return f"resume {self.nodes}"


@verb("restart", example="c1r", usage="restart b1", told_by_node=True)
class Restart(Verb):
    """Kill and start at once: a client forgets everything, a broker keeps its disk."""

    nodes: Selector = key(NODES, bare=True)

    def sentence(self) -> str:
        return f"restart {self.nodes}"


@verb("wipe", example="b1", usage="wipe b1", lasts=Lasts.WHILE_DOWN)
class Wipe(Verb):
    """A new, empty disk for a broker that is down."""

    nodes: Selector = key(ALL_BROKERS, bare=True)

    def sentence(self) -> str:
        return f"wipe the disk of {self.nodes}"

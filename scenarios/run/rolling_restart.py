"""A rolling restart, which stops and starts one broker at a time and waits between brokers.

1. A broker is stopped only when all partitions on it and on the restarted brokers have complete ISRs. `wait_for` may
   require less.
2. The restart ends if a broker is down when its turn comes, or if a wait takes longer than `timeout`. The remaining
   brokers are then not restarted, as with Strimzi's operator and Cloudera Manager, because a second broker that is
   down would be worse.
3. A broker that the restart has stopped is always started again.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

from replica.wording import listed
from scenarios.language.values.trees import time_text
from scenarios.language.verbs.process import RollingRestart
from scenarios.run.cluster_under_test import ClusterUnderTest, NotPossibleNow
from scenarios.run.disk_faults import Nodes, Outcome, by_number


class Roll:
    """A rolling restart in progress."""

    def __init__(self, cluster: ClusterUnderTest, nodes: Nodes, payload: RollingRestart) -> None:
        self.outcome: Outcome | None = None
        self._cluster = cluster
        self._nodes = nodes
        self._payload = payload
        self._began_us = cluster.time.now_us
        self._restarted: list[str] = []
        self._stopped: str | None = None
        self._epochs: dict[str, int] = {}  # broker epochs before the brokers were stopped
        self._missing = ""
        self._course = self._restart_all()

    @property
    def progress(self) -> str:
        """Return a text about the restarted brokers and the condition that the restart waits for."""
        done = f"{listed(self._restarted)} restarted" if self._restarted else "none restarted yet"
        waits = f"; waiting, since {self._missing}" if self._missing else ""
        return f"rolling restart of {listed(self._nodes)}: {done}{waits}"

    def go_on(self) -> Outcome | None:
        """Continue until the restart has to wait. Return its outcome if it has ended, otherwise None."""
        try:
            next(self._course)
        except StopIteration:
            took = (self._cluster.time.now_us - self._began_us) / 1e6
            how = "was restarted" if len(self._nodes) == 1 else "were restarted one after another"
            self.outcome = Outcome(f"{listed(self._nodes)} {how} in {took:.1f} s", True)
        except NotPossibleNow as error:
            self._fail(str(error))
        return self.outcome

    def give_up(self) -> Outcome:
        """End the restart now and return its outcome."""
        self._course.close()
        return self._fail(f"it was cancelled{f' while {self._missing}' if self._missing else ''}")

    def _fail(self, why: str) -> Outcome:
        if self._stopped is not None:
            self._start(self._stopped)
        left = [node for node in self._nodes if node not in self._restarted]
        untouched = f"; {listed(left)} {'was' if len(left) == 1 else 'were'} not restarted" if left else ""
        after = f" after {self._restarted[-1]}" if self._restarted else ""
        self.outcome = Outcome(f"the rolling restart ended{after}: {why}{untouched}", False)
        return self.outcome

    # -------------------------------------------------------------------------------------------------------- course

    def _restart_all(self) -> Generator[None]:
        """Restart the brokers one by one. Yield whenever the restart has to wait. Raises NotPossibleNow."""
        for broker in self._nodes:
            if self._restarted:
                yield from self._rest(self._payload.pause_us)
            yield from self._until(lambda broker=broker: self._lacking((*self._restarted, broker)))  # type: ignore[misc]
            self._epochs[broker] = self._cluster.view.nodes[broker].broker_epoch
            self._cluster.stop(broker)
            self._stopped = broker
            yield from self._until(lambda broker=broker: self._still_running(broker))  # type: ignore[misc]
            yield from self._rest(self._payload.down_us)
            self._start(broker)
        yield from self._until(lambda: self._lacking(self._restarted))

    def _start(self, broker: str) -> None:
        """Start a broker, unless another step has started it."""
        self._stopped = None
        self._restarted.append(broker)
        if not self._cluster.machines[broker].takes_calls:
            self._cluster.start(broker)

    def _rest(self, for_us: int) -> Generator[None]:
        until_us = self._cluster.time.now_us + for_us
        while self._cluster.time.now_us < until_us:
            yield

    def _until(self, find_missing: Callable[[], str]) -> Generator[None]:
        """Yield until `find_missing` returns "". Raises NotPossibleNow after the timeout of the step."""
        deadline_us = self._cluster.time.now_us + self._payload.timeout_us
        while missing := find_missing():
            self._missing = missing
            if self._cluster.time.now_us >= deadline_us:
                raise NotPossibleNow(f"after {time_text(self._payload.timeout_us)} {missing}")
            yield
        self._missing = ""

    # --------------------------------------------------------------------------------------------------- conditions

    def _still_running(self, broker: str) -> str:
        machine = self._cluster.machines[broker]
        return f"{broker} is still shutting down" if machine.host.running and machine.stopping else ""

    def _lacking(self, brokers: Nodes | list[str]) -> str:
        """Return a text about the first condition of `wait_for` that these brokers do not meet, "" if they meet all."""
        if self._payload.wait_for == "nothing":
            return ""
        view = self._cluster.view
        for broker in brokers:
            node = view.nodes[broker]
            if not node.running:
                return f"{broker} is not running"
            if node.fenced or node.broker_epoch == self._epochs.get(broker):
                return f"{broker} is fenced"
        if self._payload.wait_for == "unfenced":
            return ""
        for partition, state in sorted(view.partitions.items()):
            if not any(broker in state.assigned for broker in brokers):
                continue
            if state.leader is None:
                return f"{partition} has no leader"
            behind = [name for name in state.assigned if name not in state.isr]
            if behind:
                return f"the ISR of {partition} lacks {listed(behind)}"
            dead = [name for name in state.isr if not view.running(name)]
            if dead:
                return f"{listed(dead)}, in the ISR of {partition}, {by_number(dead, 'is', 'are')} not running"
        return ""

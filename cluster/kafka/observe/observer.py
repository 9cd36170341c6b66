"""Observes a cluster of Kafka brokers, and writes their events into the trace while the run continues.

Files are checked every few milliseconds. They are also checked before a response is passed on to a client, so that an
appended record precedes its ack in the trace. The observer writes no files, and the only requests that it sends to
brokers are a consumer's fetches.

Each check reads the segments first, then the consoles, then the log of decisions (the quorum's or ZooKeeper's), so that
whatever a later source refers to was read before. Decisions and console lines have the times at which they were
written; for a batch only the time of the check is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from operator import itemgetter

import trio

from cluster.kafka.observe.console_lines import ConsoleLine, ConsoleReader
from cluster.kafka.observe.decisions import Decisions, QuorumDecisions, RegistryDecisions
from cluster.kafka.observe.log_files import BrokerDisk
from cluster.kafka.observe.observed import SAMPLE_MS, Dated, Key, ObservedNode, RunTime, Seen
from cluster.kafka.observe.replica_events import ReplicaEvents
from cluster.kafka.observe.sampler import SampledHighWatermark, Sampler
from replica.ids import Names, Offset, TopicPartition
from replica.trace.events import TraceLog

LOOK_S = 0.01


class KafkaObserver:
    """Observes the nodes of a cluster.

    Args:
        nodes: each node by name; any of them may be down, paused or without a disk at any time.
        topic_defaults: defaults for topics in the nodes' configuration files.
    """

    def __init__(
        self,
        trace: TraceLog,
        time: RunTime,
        nodes: Mapping[str, ObservedNode],
        topic_defaults: Mapping[str, str],
    ) -> None:
        self._trace = trace
        self._time = time
        self._nodes = dict(nodes)
        self._running: dict[str, None] = {}
        self._seqs: dict[Key, int] = {}
        names = Names({node.node_id: node.name for node in nodes.values()})
        self.decisions = _decisions(nodes, names, topic_defaults)
        self._consoles = {name: Console(node) for name, node in nodes.items()}
        self._brokers = {
            node.name: ReplicaEvents(
                node.name,
                BrokerDisk(node.log_dir),
                names,
                decided=self.decisions.partition,
            )
            for node in nodes.values()
            if node.role == "broker"
        }

    # ------------------------------------------------------------------------------------------------ nodes' lives

    def started(self, name: str) -> None:
        """Begin to observe a node's new process.

        Earlier changes of its directory are not attributed to this process.
        """
        self._running[name] = None
        if name in self._brokers:
            self._brokers[name].started()

    def stopped(self, name: str) -> None:
        """Check the files a last time for a node whose process has ended, or is stopped and will be killed."""
        self.look()
        self._running.pop(name, None)
        if name in self._brokers:
            self._brokers[name].stopped()

    # ------------------------------------------------------------------------------------------------------- looks

    async def watch(self) -> None:
        """Sample high watermarks and check the files until cancelled."""
        async with trio.open_nursery() as nursery:
            for name in self._brokers:
                sampler = Sampler(
                    self._nodes[name].address,
                    SAMPLE_MS / 1000,
                    partial(self._known_high_watermarks, name),
                    partial(self._sampled, name),
                )
                nursery.start_soon(sampler.run)
            while True:
                since_us = self._time.now_us
                self._time.enter()
                self.look(since_us)
                await trio.sleep(LOOK_S)

    def finish(self) -> None:
        """Check the files a last time, after all clients have stopped."""
        self.look()

    def look(self, since_us: int | None = None) -> None:
        """Write all new observations into the trace.

        Args:
            since_us: earliest time for new events: that of the latest event in the trace. None for the current step's
                time.
        """
        cause, at_us = self._trace.cause, self._trace.at_us
        brokers = [self._brokers[name] for name in self._running if name in self._brokers]
        gone = [list(broker.look()) for broker in brokers]
        said = self._said()
        # A line often follows from a decision of the same millisecond.
        dated = sorted((*self.decisions.look(), *said), key=itemgetter(0))
        latest_us = at_us if since_us is None else since_us
        for wall_ms, events in dated:
            for seen in events:
                latest_us = min(at_us, max(latest_us, wall_ms * 1000 - self._time.epoch_us))
                self._put(seen, latest_us)
        for events in (*gone, *(broker.rest() for broker in brokers)):
            for seen in events:
                self._put(seen, at_us)
        self._trace.cause, self._trace.at_us = cause, at_us

    def _said(self) -> list[Dated]:
        """Return the events of new console lines, each with the line's time.

        The events are generated later, in the order of these times, because each depends on the lines before it.
        """
        found: list[Dated] = []
        for name in self._running:
            for line in self._consoles[name].look():
                decided = self.decisions.said(name, line)
                if decided is not None:
                    found.append((line.wall_ms, decided))
                elif name in self._brokers:
                    found.append((line.wall_ms, self._brokers[name].said(line)))
        return found

    def _put(self, seen: Seen, at_us: int) -> None:
        cause = None if seen.after is None else self._seqs.get(seen.after)
        self._trace.at_us, self._trace.cause = max(0, at_us), None
        self._trace.observed_by = seen.observed_by
        seq = self._trace.emit(seen.event, *(() if cause is None else (cause,)))
        self._trace.observed_by = None
        if seen.key is not None:
            self._seqs[seen.key] = seq

    # -------------------------------------------------------------------------------------------- high watermarks

    def _known_high_watermarks(self, name: str) -> dict[TopicPartition, Offset]:
        return self._brokers[name].high_watermarks() if name in self._running else {}

    def _sampled(self, name: str, samples: list[SampledHighWatermark]) -> None:
        since_us = self._time.now_us
        self._time.enter()
        self.look(since_us)
        if name in self._running:
            for sample in samples:
                for seen in self._brokers[name].sampled(*sample):
                    self._put(seen, self._trace.at_us)
        self._trace.cause = None


def _decisions(nodes: Mapping[str, ObservedNode], names: Names, topic_defaults: Mapping[str, str]) -> Decisions:
    for node in nodes.values():
        if node.role == "registry":
            return RegistryDecisions(node, names, topic_defaults)
    return QuorumDecisions([node for node in nodes.values() if node.role == "controller"], names, topic_defaults)


class Console:
    """The console file to which all processes of a node append."""

    def __init__(self, node: ObservedNode) -> None:
        self._path = node.console
        self._reader = ConsoleReader()
        self._place = 0

    def look(self) -> list[ConsoleLine]:
        try:
            if self._path.stat().st_size <= self._place:
                return []
            with self._path.open("rb", buffering=0) as file:
                file.seek(self._place)
                data = file.read()
        except FileNotFoundError:
            return []
        self._place += len(data)
        return list(self._reader.feed(data))

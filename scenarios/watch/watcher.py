"""The I/O of a watch. One task per broker sends requests, one at a time, and passes the responses to `ClusterWatch`."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import trio

from replica.ids import BrokerId, TopicPartition
from replica.wording import shown
from scenarios.watch import questions
from scenarios.watch.client_properties import Security
from scenarios.watch.cluster_watch import ClusterWatch
from scenarios.watch.link import BrokerLink, LinkFailed, RequestPace
from scenarios.watch.questions import PARTITIONS_MAX, ClusterAnswer, NotSpoken, PartitionAnswer, ReplicaAnswer
from scenarios.watch.watched import broker_name

PARTITIONS_PER_REQUEST = 1_000
TOPICS_PER_REQUEST = 200
PAGES_MAX = 1_000
MIN_ISR_EVERY_S = 60.0
CLAIM_S = 3.0
"""Seconds that a broker has to describe the cluster before another broker is asked."""
LOOK_S = 0.25
RETRY_S_MAX = 10.0


@dataclass(slots=True)
class _Asked:
    """The connection to one broker.

    Attributes:
        link: None if there is no connection.
        connecting_since: time.monotonic() at which the present attempt to connect began, None if there is none.
        failures: number of consecutive failed rounds.
    """

    pace: RequestPace = field(default_factory=RequestPace)
    link: BrokerLink | None = None
    connecting_since: float | None = None
    failures: int = 0

    @property
    def waited_since(self) -> float | None:
        return self.connecting_since if self.link is None else self.link.asked_since


class Watcher:
    """Sends requests to the brokers of a cluster until cancelled.

    Args:
        bootstrap: (host, port) of the brokers to begin with.
        how: text about these brokers and the interval, for the title of the run.
        interval_s: intended seconds between two rounds of requests to a broker. Slow responses and the rate limit may
            extend it.
        wanted: pattern of topics, None for all.
    """

    def __init__(
        self,
        watch: ClusterWatch,
        bootstrap: Sequence[tuple[str, int]],
        security: Security,
        *,
        how: str,
        interval_s: float,
        wanted: re.Pattern[str] | None,
    ) -> None:
        self.watch = watch
        self.how = how
        self.era = ""
        """The cluster's era, estimated from the API versions of the first broker that answered."""
        self.notes: dict[str, None] = {}
        self.is_ready = trio.Event()
        """Set when the first metadata has been processed."""
        self._bootstrap = bootstrap
        self._security = security
        self.interval_s = interval_s
        self._wanted = wanted
        self._started = time.monotonic()
        self._asked: dict[BrokerId, _Asked] = {}
        self._cluster_due = self._claimed_until = self._min_isr_due = 0.0
        self._min_isr_readable = True

    @property
    def now_us(self) -> int:
        return round((time.monotonic() - self._started) * 1_000_000)

    async def run(self) -> None:
        """Send requests to all brokers until cancelled. Raises LinkFailed if no bootstrap broker answers."""
        link = await self._first_link()
        try:
            self.era = link.speaks.era
            self.watch.cluster_id = await link.ask(questions.cluster_id(link.speaks))
            self.watch.begin(self.how, self.era)
            await self._describe(link, "the bootstrap broker")
        except NotSpoken as error:
            fix = "name a broker of Kafka 0.11 or newer, not a controller"
            raise LinkFailed(str(error), fix) from error
        finally:
            await link.close()
        self.is_ready.set()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._look)
            while True:
                for broker_id in list(self.watch.brokers):
                    if broker_id not in self._asked:
                        self._asked[broker_id] = _Asked()
                        nursery.start_soon(self._follow, broker_id)
                await trio.sleep(LOOK_S)

    async def _first_link(self) -> BrokerLink:
        failed: LinkFailed | None = None
        for host, port in self._bootstrap:
            try:
                return await BrokerLink.open(host, port, self._security, RequestPace())
            except LinkFailed as error:
                failed = failed or error
        assert failed is not None
        raise failed

    # ------------------------------------------------------------------------------------------------------ a broker

    async def _follow(self, broker_id: BrokerId) -> None:
        asked = self._asked[broker_id]
        while True:
            started = trio.current_time()
            try:
                await self._ask_all(broker_id, asked)
                asked.failures = 0
            except (LinkFailed, NotSpoken) as error:
                asked.failures += 1
                if asked.link is not None and asked.failures == 1:
                    # Brokers may close a connection at any time, for example when its login has expired.
                    await asked.link.close()
                    asked.link = None
                    continue
                known = self.watch.brokers[broker_id]
                since_us = self.now_us if known.answered_us is None else known.answered_us
                self.watch.silent(self.now_us, broker_id, since_us, str(error))
                if asked.link is not None:
                    await asked.link.close()
                    asked.link = None
            pause_s = min(self.interval_s * (1 + asked.failures), max(RETRY_S_MAX, self.interval_s))
            await trio.sleep_until(started + pause_s)

    async def _ask_all(self, broker_id: BrokerId, asked: _Asked) -> None:
        """Request a broker's replica offsets and, if due, the cluster's metadata. Raises LinkFailed, NotSpoken."""
        link = asked.link
        if link is None:
            address = self.watch.brokers[broker_id].address
            if address is None:
                return
            asked.connecting_since = time.monotonic()
            try:
                link = asked.link = await BrokerLink.open(address.host, address.port, self._security, asked.pace)
            finally:
                asked.connecting_since = None
            self.watch.answered(self.now_us, broker_id)
        now = time.monotonic()
        is_due = now >= self._cluster_due and now >= self._claimed_until
        if is_due and self.watch.may_describe(broker_id):
            self._claimed_until = now + CLAIM_S
            if await self._describe(link, broker_name(broker_id), broker_id):
                self._cluster_due = now + self.interval_s
            self._claimed_until = 0.0
        names = [name for name, item in self.watch.partitions.items() if broker_id in item.answer.replicas]
        for first in range(0, len(names), PARTITIONS_PER_REQUEST):
            await self._ask_replicas(broker_id, link, names[first : first + PARTITIONS_PER_REQUEST])

    async def _ask_replicas(self, broker_id: BrokerId, link: BrokerLink, names: Sequence[TopicPartition]) -> None:
        ends = {item.name: item for item in await link.ask(questions.log_ends(link.speaks, names))}
        known = {name: item.log_end_offset for name, item in ends.items() if item.log_end_offset is not None}
        asked_for = dict.fromkeys(names)
        at_end = {name: end for name, end in known.items() if name in asked_for}
        marks: dict[TopicPartition, ReplicaAnswer] = {}
        if at_end:
            marks = {item.name: item for item in await link.ask(questions.high_watermarks(link.speaks, at_end))}
        both = []
        for name in asked_for:
            item, mark = ends.get(name), marks.get(name)
            if item is None:
                continue
            if mark is not None:
                error = item.error if mark.high_watermark is not None else mark.error
                item = ReplicaAnswer(name, item.log_end_offset, mark.high_watermark, error)
            both.append(item)
        self.watch.replicas_answered(self.now_us, broker_id, both)

    # ------------------------------------------------------------------------------------------------------- cluster

    async def _describe(self, link: BrokerLink, asked: str, broker_id: BrokerId | None = None) -> bool:
        """Request the cluster's metadata from a broker. Raises LinkFailed, NotSpoken.

        Args:
            asked: name of the broker.
            broker_id: id of the broker, None if it is not known yet.

        Returns:
            False if the broker's metadata cannot be trusted (ClusterWatch.may_describe).
        """
        brokers = await link.ask(questions.brokers(link.speaks))
        if broker_id is not None and not self.watch.may_describe(broker_id, brokers):
            return False
        partitions: list[PartitionAnswer] = []
        left_out, cursor = 0, None
        for _ in range(PAGES_MAX):
            room = PARTITIONS_MAX - len(partitions)
            page = await link.ask(questions.every_topic(link.speaks, self._wanted, room, cursor))
            partitions += page.partitions
            left_out += page.left_out
            if page.cursor is None or (cursor is not None and page.cursor <= cursor):
                break
            cursor = page.cursor
        topics = list(dict.fromkeys(partition.name.topic for partition in partitions))
        unknown = [topic for topic in topics if self.watch.min_isr_of(topic) is None]
        if time.monotonic() >= self._min_isr_due:
            self._min_isr_due = time.monotonic() + MIN_ISR_EVERY_S
        else:
            topics = unknown if self._min_isr_readable else []
        await self._describe_min_isr(link, topics)
        self.watch.brokers_answered(self.now_us, asked, brokers)
        self.watch.cluster_answered(self.now_us, ClusterAnswer(brokers, tuple(partitions), left_out))
        return True

    async def _describe_min_isr(self, link: BrokerLink, topics: Sequence[str]) -> None:
        """Request min.insync.replicas of topics. Topics without an answer are requested again in a later round."""
        for first in range(0, len(topics), TOPICS_PER_REQUEST):
            some = topics[first : first + TOPICS_PER_REQUEST]
            try:
                found = await link.ask(questions.min_isrs(link.speaks, some))
            except NotSpoken:
                found = {}
            self._min_isr_readable = len(found) == len(some)
            if not self._min_isr_readable:
                self.notes["min.insync.replicas cannot be read for all topics (DescribeConfigs)"] = None
            self.watch.min_isrs_answered(self.now_us, {topic: found[topic] for topic in some if topic in found})

    # ------------------------------------------------------------------------------------------------------- silence

    async def _look(self) -> None:
        """Find brokers that do not answer in time. A paused broker keeps its connections, so only its silence shows."""
        patience_s = max(2 * self.interval_s, 1.5)
        while True:
            await trio.sleep(LOOK_S)
            for broker_id, asked in self._asked.items():
                since = asked.waited_since
                if since is not None and time.monotonic() - since >= patience_s:
                    known = self.watch.brokers[broker_id]
                    begun_us = round((since - self._started) * 1_000_000)
                    since_us = begun_us if known.answered_us is None else known.answered_us
                    self.watch.silent(self.now_us, broker_id, since_us, "connected, but no answer")
            self.watch.look(self.now_us)


def parse_bootstrap(text: str) -> list[tuple[str, int]]:
    """Parse addresses such as `host:9092,[::1]:9092` into (host, port) pairs. Raises ValueError."""
    found = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(?:\[([0-9a-fA-F:.%\w]+)\]|([^\s:\[\]]+)):(\d{1,5})\s*", part)
        if match is None or not 0 < int(match[3]) < 65_536:
            raise ValueError(f"`{shown(part)}` is not HOST:PORT")
        found.append((match[1] or match[2], int(match[3])))
    return found

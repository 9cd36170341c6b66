"""Performs the steps of a timeline on the cluster, and undoes them after `for`.

The method of a verb selects its nodes when the step fires. It returns these nodes and a sentence, both for the trace.
The nodes themselves emit events about the consequences.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from cluster.network.links import HoldRule, Link
from cluster.protocol.versions import api_key
from controller.inputs import PlainReply, Reply
from replica.errors import ErrorCode
from replica.ids import TopicPartition
from replica.wording import listed
from scenarios.language.selectors import Selector, resolve
from scenarios.language.steps import Direction, Payload
from scenarios.language.verbs.clients import Seek
from scenarios.language.verbs.cluster import (
    CancelReassign,
    DropVoter,
    Elect,
    EndHangingTransaction,
    FenceOff,
    MakeTopic,
    MakeVoter,
    MorePartitions,
    Reassign,
    RemoveGroup,
    RemoveOffsets,
    RemoveRecords,
    RemoveTopic,
    ResetGroupOffsets,
    SetConfig,
    SetQuota,
    Throttle,
    Unregister,
    UpdateFeatures,
)
from scenarios.language.verbs.disk import Flush, Tear
from scenarios.language.verbs.network import (
    AddLatency,
    Cut,
    Heal,
    Hold,
    LimitBandwidth,
    Loss,
    PartitionNetwork,
    Release,
    ResetPeer,
)
from scenarios.language.verbs.process import Kill, Pause, PowerOff, Restart, Resume, RollingRestart, Start, Stop, Wipe
from scenarios.observe.wording import count_of
from scenarios.run.cluster_under_test import ClusterUnderTest, NotPossibleNow
from scenarios.run.disk_faults import DiskFaults, Done, Nodes, performers_of, performs
from scenarios.run.disk_faults import by_number as _s
from scenarios.run.operations import Operator
from scenarios.run.request_faults import RequestFaultSteps
from scenarios.run.rolling_restart import Roll
from scenarios.run.workload import OperatedConsumer
from scenarios.run.worlds import link_latency

ASKED_FOR, DONE = "asked for", "done"
DECIDED = (DONE, ErrorCode.ELECTION_NOT_NEEDED.name)
NOT_REFUSED = (ASKED_FOR, *DECIDED)
"""Results of an election that are not refusals. kafka-leader-election, too, treats ELECTION_NOT_NEEDED as success."""


class Faults:
    """Performs steps. `captured` has the nodes that steps with `as` have selected, by label."""

    def __init__(self, cluster: ClusterUnderTest, captured: dict[str, Nodes]) -> None:
        self._cluster = cluster
        self.captured = captured  # The timeline fills this dictionary.
        self.operator = Operator(cluster)
        self._throttles: dict[str, tuple[Nodes, Sequence[str], str | None]] = {}
        self._holds_begun = 0
        self._roll: Roll | None = None
        others = (DiskFaults(cluster, self.resolve), RequestFaultSteps(cluster, self.resolve))
        self._performers = {
            kind: perform for owner in (self, *others) for kind, perform in performers_of(owner).items()
        }

    async def perform(self, name: str, payload: Payload) -> Done:
        """Perform a step.

        A step acts on all of its nodes and disks or on none. Exceptions are configuration and throttles, which need one
        request per broker, as with Kafka's tools.

        Raises:
            NotPossibleNow, SelectorError: the step is impossible at this moment.
        """
        return await self._performers[type(payload)](name, payload)

    def must_change_something(self, payload: Payload) -> None:
        """Raise NotPossibleNow if an operator kills only stopped nodes. A scenario's step may do that."""
        if isinstance(payload, Kill):
            nodes = self.resolve(payload.nodes)
            if not any(map(self._cluster.running, nodes)):
                raise NotPossibleNow(f"{listed(nodes)} {_s(nodes, 'is', 'are')} already down")

    def resolve(self, selector: Selector) -> Nodes:
        return resolve(selector, self._cluster.view, self.captured)

    # ------------------------------------------------------------------------------------------------------ process

    @performs(Start)
    async def _start(self, name: str, payload: Start) -> Done:
        nodes = self.resolve(payload.nodes)
        self._cluster.must_be_down(nodes)
        later = tuple(node for node in nodes if not self._cluster.start(node))
        sentence = f"{listed(nodes)} started"
        if later:
            wait = f"as soon as {_s(later, 'it has', 'they have')} shut down"
            begun = tuple(node for node in nodes if node not in later)
            sentence = f"{listed(begun)} started, " if begun else ""
            sentence += f"{listed(later)} {_s(later, 'starts', 'start')} {wait}"
        return Done(nodes, sentence)

    @performs(Stop)
    async def _stop(self, name: str, payload: Stop) -> Done:
        nodes = self.resolve(payload.nodes)
        self._cluster.must_run(node for node in nodes if node not in self._cluster.scenario.workloads)
        for node in nodes:
            if node in self._cluster.scenario.workloads:
                await self._cluster.close(node)
            else:
                self._cluster.stop(node)
        return Done(
            nodes, f"{listed(nodes)} {_s(nodes, 'was', 'were')} asked to shut down", self._undo_with_start(nodes)
        )

    @performs(Kill)
    async def _kill(self, name: str, payload: Kill) -> Done:
        nodes = self.resolve(payload.nodes)
        killed = tuple(filter(self._cluster.running, nodes))
        await self._cluster.kill(*nodes)
        sentence = f"{listed(killed)} {_s(killed, 'was', 'were')} killed"
        if not killed:
            sentence = f"{listed(nodes)} {_s(nodes, 'was', 'were')} already down"
        return Done(nodes, sentence, self._undo_with_start(nodes))

    @performs(PowerOff)
    async def _power_off(self, name: str, payload: PowerOff) -> Done:
        nodes = self.resolve(payload.nodes)
        await self._cluster.power_off(*nodes)
        return Done(nodes, f"{listed(nodes)} lost power", self._undo_with_start(nodes))

    def _undo_with_start(self, nodes: Nodes) -> Callable[[], Awaitable[str]]:
        async def undo() -> str:
            for node in nodes:
                if not self._cluster.running(node) or self._cluster.machines[node].stopping:
                    self._cluster.start(node)
            return f"{listed(nodes)} started again"

        return undo

    @performs(Pause)
    async def _pause(self, name: str, payload: Pause) -> Done:
        nodes = self.resolve(payload.nodes)
        self._cluster.must_run(nodes)
        for node in nodes:
            self._cluster.pause(node)

        async def undo() -> str:
            for node in nodes:
                self._cluster.resume(node)
            return f"{listed(nodes)} continued"

        return Done(nodes, f"{listed(nodes)} {_s(nodes, 'was', 'were')} frozen (SIGSTOP)", undo)

    @performs(Resume)
    async def _resume(self, name: str, payload: Resume) -> Done:
        nodes = self.resolve(payload.nodes)
        for node in nodes:
            self._cluster.resume(node)
        return Done(nodes, f"{listed(nodes)} continued (SIGCONT)")

    @performs(Wipe)
    async def _wipe(self, name: str, payload: Wipe) -> Done:
        nodes = self.resolve(payload.nodes)
        self._cluster.wipe(nodes)
        return Done(nodes, f"{listed(nodes)} got an empty disk")

    @performs(Restart)
    async def _restart(self, name: str, payload: Restart) -> Done:
        nodes = self.resolve(payload.nodes)
        for node in nodes:
            await self._cluster.kill(node)
            self._cluster.start(node)
        return Done(nodes, f"{listed(nodes)} {_s(nodes, 'was', 'were')} restarted")

    @performs(RollingRestart)
    async def _rolling_restart(self, name: str, payload: RollingRestart) -> Done:
        if self._roll is not None and self._roll.outcome is None:
            raise NotPossibleNow(f"another rolling restart is still in progress ({self._roll.progress})")
        nodes = self.resolve(payload.brokers)
        self._cluster.must_run(nodes)
        roll = self._roll = Roll(self._cluster, nodes, payload)

        async def undo() -> str:
            return roll.give_up().sentence

        return Done(nodes, f"a rolling restart of {listed(nodes)} began", undo, course=roll)

    # ------------------------------------------------------------------------------------------------------ network

    @performs(PartitionNetwork)
    async def _partition(self, name: str, payload: PartitionNetwork) -> Done:
        islands = [self.resolve(island) for island in payload.islands]
        for number, island in enumerate(islands):
            for other in islands[number + 1 :]:
                for link in self._links(island, other, "both"):
                    link.cuts.append(name)
        nodes = tuple(node for island in islands for node in island)
        text = " | ".join(listed(island) for island in islands)
        return Done(nodes, f"the network was partitioned: {text}", self._undo_with_heal(name))

    @performs(Cut)
    async def _cut(self, name: str, payload: Cut) -> Done:
        nodes, others = map(self.resolve, payload.between)
        for link in self._links(nodes, others, payload.direction):
            link.cuts.append(name)
        arrow = {"both": "and", "to": "no longer heard", "from": "no longer reached"}[payload.direction]
        if payload.direction == "both":
            sentence = f"no message passed between {listed(nodes)} on one side and {listed(others)} on the other"
        else:
            sentence = f"{listed(nodes)} {arrow} {listed(others)}"
        return Done((*nodes, *others), sentence, self._undo_with_heal(name))

    @performs(AddLatency)
    async def _add_latency(self, name: str, payload: AddLatency) -> Done:
        nodes, others = map(self.resolve, payload.between)
        latency = link_latency(payload.add)
        for link in self._links(nodes, others, payload.direction):
            link.added[name] = latency
        return Done((*nodes, *others), f"{_between(nodes, others)} became slower", self._undo_with_heal(name))

    @performs(LimitBandwidth)
    async def _limit_bandwidth(self, name: str, payload: LimitBandwidth) -> Done:
        nodes, others = map(self.resolve, payload.between)
        for link in self._links(nodes, others, payload.direction):
            link.bytes_per_second[name] = payload.bytes_per_second
        sentence = f"{_between(nodes, others)} was limited to {payload.bytes_per_second} bytes a second"
        return Done((*nodes, *others), sentence, self._undo_with_heal(name))

    @performs(Loss)
    async def _loss(self, name: str, payload: Loss) -> Done:
        nodes, others = map(self.resolve, payload.between)
        for link in self._links(nodes, others, payload.direction):
            link.loss[name] = payload.rate_ppm / 1_000_000
        sentence = f"{_between(nodes, others)} lost {payload.rate_ppm / 10_000:g} % of its packets"
        return Done((*nodes, *others), sentence, self._undo_with_heal(name))

    @performs(Heal)
    async def _heal(self, name: str, payload: Heal) -> Done:
        labels = payload.names or self._network_faults()
        self._heal_links(labels)
        answer = None if labels else "no network fault is in force, so there is nothing to heal"
        sentence = f"the network was healed: {', '.join(labels) or 'no fault was in force'}"
        return Done((), sentence, ended=labels, answer=answer)

    def _undo_with_heal(self, name: str) -> Callable[[], Awaitable[str]]:
        async def undo() -> str:
            self._heal_links((name,))
            return f"{name} was healed"

        return undo

    def _heal_links(self, labels: Sequence[str]) -> None:
        for link in self._cluster.network.links():
            for label in labels:
                link.remove(label)
        self._cluster.fabric.move_on()

    def _network_faults(self) -> tuple[str, ...]:
        """Return the labels of all network faults in force, without the settings of the `network` block."""
        labels: dict[str, None] = {}
        for link in self._cluster.network.links():
            labels.update(dict.fromkeys([*link.cuts, *link.added, *link.loss, *link.bytes_per_second]))
        return tuple(label for label in labels if not label.startswith("network"))

    def _links(self, nodes: Nodes, others: Nodes, direction: Direction) -> list[Link]:
        """Return the links between two sets of nodes.

        Args:
            direction: `from` for messages that `nodes` send, `to` for messages that they receive, `both` for both.
        """
        pairs = []
        for a in nodes:
            for b in others:
                if direction in ("both", "from"):
                    pairs.append((a, b))
                if direction in ("both", "to"):
                    pairs.append((b, a))
        return [
            self._cluster.network.link(source, target) for source, target in dict.fromkeys(pairs) if source != target
        ]

    @performs(ResetPeer)
    async def _reset_peer(self, name: str, payload: ResetPeer) -> Done:
        nodes, others = map(self.resolve, payload.between)
        count = sum([await self._cluster.fabric.reset(a, b) for a in nodes for b in others])
        return Done(
            (*nodes, *others),
            f"{count_of(count, 'connection')} between {listed(nodes)} and {listed(others)} {_were(count)} reset",
        )

    @performs(Hold)
    async def _hold(self, name: str, payload: Hold) -> Done:
        sources, targets = self.resolve(payload.sender), self.resolve(payload.receiver)
        api = None if payload.api is None else api_key(payload.api)
        self._holds_begun += 1
        rule = HoldRule(name, sources, targets, api, payload.part, payload.count, self._holds_begun)
        self._cluster.network.holds.append(rule)
        many = payload.count is not None and payload.count > 1
        which = "every" if payload.count is None else f"the next {payload.count}" if many else "the next"
        kept = f"{payload.part or 'message'}{'s' if many else ''}"
        what = " ".join((which, *((payload.api,) if payload.api else ()), kept))
        sentence = f"{what} from {listed(sources)} to {listed(targets)} {'were' if many else 'was'} held back"

        async def undo() -> str:
            self._release_holds((name,))
            return f"{name} was released"

        return Done(tuple(dict.fromkeys((*sources, *targets))), sentence, undo)

    @performs(Release)
    async def _release(self, name: str, payload: Release) -> Done:
        names = payload.names or tuple(hold.fault for hold in self._cluster.network.holds)
        self._release_holds(names)
        sentence = f"the messages held back by {listed(names)} were released" if names else "no message was held back"
        return Done((), sentence, ended=names)

    def _release_holds(self, names: Sequence[str]) -> None:
        holds = self._cluster.network.holds
        holds[:] = [hold for hold in holds if hold.fault not in names]
        self._cluster.fabric.move_on()

    # --------------------------------------------------------------------------------------------------------- disk

    @performs(Flush)
    async def _flush(self, name: str, payload: Flush) -> Done:
        nodes = self.resolve(payload.brokers)
        await self._cluster.flush(nodes, payload.partition)
        return Done(nodes, f"{listed(nodes)} wrote the page cache to disk")

    @performs(Tear)
    async def _tear(self, name: str, payload: Tear) -> Done:
        nodes = self.resolve(payload.broker)
        self._cluster.tear(nodes, payload.partition, payload.size_bytes)
        return Done(
            nodes,
            f"{listed(nodes)} lost the last {count_of(payload.size_bytes, 'byte')} of a log",
        )

    # ------------------------------------------------------------------------------------------------------ cluster

    @performs(Elect)
    async def _elect(self, name: str, payload: Elect) -> Done:
        desired = None if payload.broker is None else self.resolve(payload.broker)
        ids = self._cluster.scenario.cluster.ids
        broker_id = None if desired is None else ids[desired[0]]
        partitions = self._partitions_to_elect(payload, desired)
        replies = await self.operator.elect_leaders(partitions, broker_id, payload.unclean)
        await self._cluster.fabric.settle()
        outcomes = [(topic_partition, _outcome(reply)) for topic_partition, reply in replies.items()]
        election = "an unclean election" if payload.unclean else "a preferred election"
        if desired is not None:
            election += f" of {desired[0]}"
        answers = ", ".join(f"{topic_partition}: {outcome}" for topic_partition, outcome in outcomes)
        refused = outcomes != [] and all(outcome not in NOT_REFUSED for _, outcome in outcomes)
        sentence = f"{election} was requested ({answers})"
        leaders = [(name, self._cluster.view.leader(name)) for name, outcome in outcomes if outcome in DECIDED]
        who = ", ".join(f"{leader or 'no broker'} leads {name}" for name, leader in leaders)
        answer = f"refused: {election} ({answers})" if refused else f"{sentence}; {who}" if who else None
        return Done(desired or (), sentence, answer=answer, refused=refused)

    def _partitions_to_elect(self, payload: Elect, desired: Nodes | None) -> list[TopicPartition]:
        if payload.partition is not None:
            return [payload.partition]
        view = self._cluster.view
        return [name for name in sorted(view.partitions) if desired is None or desired[0] in view.replicas(name)]

    @performs(Reassign)
    async def _reassign(self, name: str, payload: Reassign) -> Done:
        target = self.resolve(payload.replicas)
        await self.operator.reassign(payload.partition, target, payload.bytes_per_second)
        rate = "" if payload.bytes_per_second is None else f", at most {payload.bytes_per_second} bytes a second"
        return Done(target, f"the reassignment of {payload.partition} to {listed(target)} was requested{rate}")

    @performs(CancelReassign)
    async def _cancel_reassign(self, name: str, payload: CancelReassign) -> Done:
        await self.operator.cancel_reassignment(payload.partition)
        return Done((), f"the reassignment of {payload.partition} was cancelled")

    @performs(Throttle)
    async def _throttle(self, name: str, payload: Throttle) -> Done:
        nodes, rate = self.resolve(payload.brokers), payload.bytes_per_second
        sides = ("leader", "follower") if payload.side == "both" else (payload.side,)
        await self.operator.throttle(nodes, rate, sides, payload.topic)
        over = f"the replication of {listed(nodes)} is no longer throttled"
        if rate is None:
            return Done(nodes, over, ended=self._throttles_of(nodes, sides, payload.topic))
        self._throttles[name] = (nodes, sides, payload.topic)

        async def undo() -> str:
            await self.operator.throttle(nodes, None, sides, payload.topic)
            return over

        return Done(nodes, f"the replication of {listed(nodes)} was throttled to {rate} bytes a second", undo)

    def _throttles_of(self, nodes: Nodes, sides: Sequence[str], topic: str | None) -> tuple[str, ...]:
        """Return the names of the throttles that end completely if these brokers, sides and topic are not throttled.

        Args:
            sides: `leader`, `follower`, or both.
            topic: None for all topics.
        """
        return tuple(
            name
            for name, (brokers, its_sides, its_topic) in self._throttles.items()
            if all(node in nodes for node in brokers)
            and all(side in sides for side in its_sides)
            and topic in (None, its_topic)
        )

    @performs(MakeTopic)
    async def _create_topic(self, name: str, payload: MakeTopic) -> Done:
        topic = self._cluster.scenario.topics[payload.topic]
        await self.operator.create_topic(topic)
        return Done((), f"the topic {topic.name} was created with {count_of(topic.partitions, 'partition')}")

    @performs(RemoveTopic)
    async def _delete_topic(self, name: str, payload: RemoveTopic) -> Done:
        await self.operator.delete_topic(payload.topic)
        return Done((), f"the topic {payload.topic} was deleted")

    @performs(MorePartitions)
    async def _create_partitions(self, name: str, payload: MorePartitions) -> Done:
        await self.operator.create_partitions(payload.topic, payload.count)
        return Done((), f"the topic {payload.topic} now has {payload.count} partitions")

    @performs(RemoveRecords)
    async def _delete_records(self, name: str, payload: RemoveRecords) -> Done:
        await self.operator.delete_records(payload.partition, payload.offset)
        return Done((), f"the deletion of records of {payload.partition} {payload.where} was requested")

    @performs(RemoveGroup)
    async def _delete_group(self, name: str, payload: RemoveGroup) -> Done:
        await self.operator.delete_group(payload.group, None)
        return Done((), f"the deletion of the group {payload.group} and its offsets was requested")

    @performs(RemoveOffsets)
    async def _delete_offsets(self, name: str, payload: RemoveOffsets) -> Done:
        await self.operator.delete_group(payload.group, payload.topic)
        return Done((), f"the deletion of the offsets of group {payload.group} in {payload.topic} was requested")

    @performs(ResetGroupOffsets)
    async def _reset_offsets(self, name: str, payload: ResetGroupOffsets) -> Done:
        number = payload.partition
        names = [
            partition
            for partition in sorted(self._cluster.view.partitions)
            if partition.topic == payload.topic and number in (None, partition.partition)
        ]
        await self.operator.reset_offsets(payload.group, names, payload)
        return Done((), f"a reset of the offsets of {payload.group} in {payload.what} {payload.where} was requested")

    @performs(EndHangingTransaction)
    async def _abort_transaction(self, name: str, payload: EndHangingTransaction) -> Done:
        await self.operator.abort_transaction(payload.partition, payload.offset)
        return Done(
            (), f"the abort of {payload.which} of {payload.partition} was requested, without asking its coordinator"
        )

    @performs(FenceOff)
    async def _fence_producer(self, name: str, payload: FenceOff) -> Done:
        await self.operator.fence_producer(payload.transactional_id)
        return Done(
            (), f"fencing the producer of {payload.transactional_id} and aborting its transaction was requested"
        )

    @performs(Unregister)
    async def _unregister_broker(self, name: str, payload: Unregister) -> Done:
        nodes = self.resolve(payload.broker)
        for node in nodes:
            await self.operator.unregister(node)
        return Done(nodes, f"the unregistration of {listed(nodes)} was requested")

    @performs(MakeVoter)
    async def _add_voter(self, name: str, payload: MakeVoter) -> Done:
        nodes = self.resolve(payload.controller)
        for node in nodes:
            await self.operator.change_voters(node, is_addition=True)
        return Done(nodes, f"adding {listed(nodes)} to the voters of the controller quorum was requested")

    @performs(DropVoter)
    async def _remove_voter(self, name: str, payload: DropVoter) -> Done:
        nodes = self.resolve(payload.controller)
        for node in nodes:
            await self.operator.change_voters(node, is_addition=False)
        return Done(nodes, f"removing {listed(nodes)} from the voters of the controller quorum was requested")

    @performs(SetConfig)
    async def _set_config(self, name: str, payload: SetConfig) -> Done:
        config = dict(payload.config)
        nodes = () if payload.brokers is None else self.resolve(payload.brokers)
        for node in nodes:
            await self.operator.set_broker_config(node, config)
        if payload.topic is not None:
            await self.operator.set_topic_config(payload.topic, config)
        if payload.group is not None:
            await self.operator.set_group_config(payload.group, config)
        if payload.entity_default is not None:
            await self.operator.set_broker_config(None, config)
        settings = ", ".join(f"{key}={'default' if value is None else value}" for key, value in config.items())
        return Done(nodes, f"{listed(nodes) if nodes else payload.whose} got {settings}")

    @performs(UpdateFeatures)
    async def _update_features(self, name: str, payload: UpdateFeatures) -> Done:
        await self.operator.update_features(dict(payload.features), payload.upgrade_type)
        levels = " and ".join(f"{feature} now has level {level}" for feature, level in payload.features)
        return Done((), levels)

    @performs(SetQuota)
    async def _set_quota(self, name: str, payload: SetQuota) -> Done:
        await self.operator.set_quota(payload.as_spec)
        quotas = ", ".join(f"{key}={'none' if value is None else value}" for key, value in payload.quota)
        return Done((), f"{payload.as_spec.whose} got {quotas}")

    # ------------------------------------------------------------------------------------------------------ clients

    @performs(Seek)
    async def _seek(self, name: str, payload: Seek) -> Done:
        machine = self._cluster.machines[payload.consumer]
        if not isinstance(machine.core, OperatedConsumer) or not machine.takes_calls:
            raise NotPossibleNow(f"{payload.consumer} is not running")
        machine.host.call(partial(machine.core.seek, payload.partition, payload.to))
        return Done(
            (payload.consumer,), f"{payload.consumer} moved its position in {payload.partition} to {payload.to}"
        )


def _outcome(reply: Reply | None) -> str:
    """Return the result of an election: ASKED_FOR without a reply so far, DONE, or the name of an error."""
    if reply is None:
        return ASKED_FOR
    assert isinstance(reply, PlainReply)
    return DONE if reply.error is ErrorCode.NONE else reply.error.name


def _were(count: int) -> str:
    return "was" if count == 1 else "were"


def _between(nodes: Nodes, others: Nodes) -> str:
    return f"the link between {listed(nodes)} and {listed(others)}"

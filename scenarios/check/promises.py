"""Decide which invariants the rules of a run promise (replica/RULES.md).

An older rule may allow a failure for which the newer rule was made. If an invariant breaks that the rules of the run
promise, this is a bug in Highwater. Otherwise it is a finding about that era of Kafka, and a scenario may expect it.

Damage that the configuration allows, such as unclean elections or disks that lose bytes, is not treated here: truth.py
then re-bases the committed log. A gap has `after=(BYTES_LOST,)` only if an old rule makes such damage worse.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass

from controller.features import ELR_VERSION, TRANSACTION_VERSION, TRANSACTIONS_V2
from replica.rules import Rules, Switch, spelled
from replica.trace import events as trace
from replica.trace.events import TraceRow
from replica.trace.listening import Listener, on

# -------------------------------------------------------------------------------------------------------- circumstances
#
# Events of a run without which an old rule's gap does no harm.

BYTES_LOST = "a disk has lost bytes"
RETURNED_UNFENCED = "a broker registered that was not fenced after its previous start"


class Circumstances(Listener):
    """Listener that records in `seen` whether a disk lost bytes, and whether an unfenced broker registered again."""

    def __init__(self) -> None:
        self.seen: dict[str, None] = {}
        self._unfenced: dict[str, None] = {}
        self._broker_epochs: dict[str, int] = {}

    @property
    def bytes_lost(self) -> bool:
        return BYTES_LOST in self.seen

    @on(trace.DataLost)
    def _data_lost(self, row: TraceRow, event: trace.DataLost) -> None:
        self.seen[BYTES_LOST] = None

    @on(trace.BrokerUnfenced)
    def _unfenced_now(self, row: TraceRow, event: trace.BrokerUnfenced) -> None:
        self._unfenced[event.broker or event.node] = None

    @on(trace.BrokerFenced)
    def _fenced_now(self, row: TraceRow, event: trace.BrokerFenced) -> None:
        self._unfenced.pop(event.broker or event.node, None)

    @on(trace.BrokerRegistered)
    def _registered(self, row: TraceRow, event: trace.BrokerRegistered) -> None:
        broker = event.broker or event.node
        if self._broker_epochs.get(broker) == event.broker_epoch:
            return  # It registers again without a restart.
        self._broker_epochs[broker] = event.broker_epoch
        if broker in self._unfenced:
            del self._unfenced[broker]
            self.seen[RETURNED_UNFENCED] = None


@dataclass(frozen=True, slots=True)
class Gap:
    """Old values of a switch of the protocol under which invariants can break, and the rule that closed the gap.

    Attributes:
        invariants: names of the invariant that breaks first and of those that break as a consequence.
        rule: the source of the rule (KIP or issue) and its content.
        only_with: another switch and its value without which nothing can break; None if there is no such condition.
        after: circumstances, such as BYTES_LOST, that must all have happened before anything can break.
    """

    switch: str
    values: tuple[Switch, ...]
    invariants: frozenset[str]
    rule: str
    only_with: tuple[str, Switch] | None = None
    after: tuple[str, ...] = ()

    def concerns(self, rules: Rules) -> bool:
        if self.only_with is not None and rules.value(self.only_with[0]) != self.only_with[1]:
            return False
        return rules.value(self.switch) in self.values

    @property
    def remedy(self) -> str:
        """Return the setting that selects the newer rule, such as `isr-join=epoch-start`."""
        _, choices = Rules.switches()[self.switch]
        newer = choices[choices.index(str(self.values[-1])) + 1 :]
        return f"{self.switch}={newer[0] if newer else Rules().value(self.switch)}"  # A teaching mutant comes last.

    def sentence(self, rules: Rules) -> str:
        """Return a text about the missing rule, such as "`isr-join: high-watermark` lacks KAFKA-7128 (2.0.1): ..."."""
        return f"`{self.switch}: {spelled(rules.value(self.switch))}` lacks {self.rule}"


def _gap(
    switch: str,
    values: Iterable[Switch],
    invariants: str,
    rule: str,
    only_with: tuple[str, Switch] | None = None,
    after: tuple[str, ...] = (),
) -> Gap:
    return Gap(switch, tuple(values), frozenset(invariants.split(",")), rule, only_with, after)


_LEADER_INCOMPLETE = "S2,S3,S5,S6,S17"
"""Invariants that break if a member of the ISR lacks committed records: once it leads, the others truncate theirs."""
_LOGS_DIVERGE = "S2,S3,S5,S6,S8,S10,S11,S15,S16,S17,S26"
"""Invariants that break if replicas keep different records at one offset below their high watermarks.

Later records of these logs may then belong to an older epoch.
"""

GAPS: tuple[Gap, ...] = (
    _gap(
        "truncation",
        ("high-watermark",),
        _LOGS_DIVERGE,
        "KIP-101 (0.11): a follower truncates by the leader's epochs, not to its own high watermark",
    ),
    _gap(
        "truncation",
        ("leader-epoch",),
        _LOGS_DIVERGE,
        "KIP-279 (2.0): the leader states the epoch to which the end offset belongs",
    ),
    # A fetch may be under way when the follower learns of a new leader epoch. The answer comes while the follower asks
    # where to truncate, and is dropped (AbstractFetcherThread.processFetchRequest). The fetch session counts it as
    # delivered, so no later answer repeats the high watermark (FetchSession.maybeUpdateResponseData).
    _gap(
        "truncation",
        ("leader-epoch-exact",),
        "L3 follower-hw",
        "KAFKA-10554 (2.7): a follower truncates by fetching, and drops no response of its fetch session",
    ),
    _gap(
        "fetch-fencing",
        ("none",),
        _LOGS_DIVERGE,
        "KIP-320 (2.1): a fetch has the leader epoch, and is refused if the epoch differs",
    ),
    _gap(
        "control-fencing",
        ("none", "controller-epoch"),
        _LEADER_INCOMPLETE,
        "KIP-380 (2.2): a request of the controller is for one start of the broker (its broker epoch)",
    ),
    # KAFKA-1120: a bounced broker does not learn what it should replicate, and stays out of every ISR until the next
    # controller, or its next start. Scenario bounced-broker-old-command shows this. If it led before, it still leads in
    # the registry and does not know it (L3, L4 unaware-leader), as a search found.
    _gap(
        "control-fencing",
        ("none", "controller-epoch"),
        "L2,L3,L4 unaware-leader",
        "KIP-380 (2.2): a controller notices by the broker epoch that a broker restarted between two checks",
    ),
    # A leader that is the controller loses power, and registers again before the next controller reads the registry.
    # KIP-380 does not help: that controller knows no earlier broker epoch. KafkaController.onControllerFailover finds
    # the leader live and lets it continue. It writes new records where followers have others of the same epoch.
    _gap(
        "membership",
        ("zk-session",),
        f"S9,{_LOGS_DIVERGE}",
        "KIP-631 (KRaft): a broker that restarts is fenced first, so the next leader leads in a new epoch",
        after=(BYTES_LOST,),
    ),
    _gap(
        "fetch-minimum",
        ("none",),
        "L2,L3",
        "KIP-74 (0.10.1): a fetch returns at least one complete batch, however large",
    ),
    _gap(
        "isr-eligibility",
        ("any",),
        "S19",
        "KIP-841 (3.3): a broker that is fenced or shuts down cannot join the ISR",
    ),
    _gap(
        "isr-eligibility",
        ("any", "unfenced"),
        _LEADER_INCOMPLETE,
        "KIP-903 (3.5): a broker joins the ISR only if it has not restarted since it caught up",
    ),
    _gap(
        "isr-join",
        ("high-watermark",),
        _LEADER_INCOMPLETE,
        "KAFKA-7128 (2.0.1): a replica joins the ISR only once it has reached the start of the leader's epoch",
    ),
    _gap(
        "hw-advance",
        ("isr",),
        "S25 min-isr",
        "KAFKA-15583 (3.7): the high watermark does not move while the ISR is smaller than min.insync.replicas",
    ),
    _gap(
        "hw-advance",
        ("isr",),
        f"S7,{_LEADER_INCOMPLETE}",
        "KAFKA-15583 (3.7): eligible leaders have all committed records, as the high watermark did not move",
        only_with=("elr", True),
    ),
    # If every broker is dead when a controller takes over, it fences none. The first broker that registers stays in its
    # ISRs and still leads in the same epoch, with what is left on its disk (kafka-fsync-torn-tail:b2-stopped).
    _gap(
        "session-checks",
        ("at-the-end",),
        "S19",
        "KAFKA-17793 (4.0): a controller checks for expired sessions even if no broker contacts it",
        only_with=("membership", "registration"),
        after=(RETURNED_UNFENCED,),
    ),
    _gap(
        "session-checks",
        ("at-the-end",),
        f"S9,{_LOGS_DIVERGE}",
        "KAFKA-17793 (4.0): a leader that restarts has been fenced, so it leads in a new epoch",
        only_with=("membership", "registration"),
        after=(BYTES_LOST, RETURNED_UNFENCED),
    ),
    _gap(
        "consumer-limit",
        ("log-end",),
        "S11,S28",
        "the oldest rule of all: consumers read only below the high watermark",
    ),
    _gap(
        "transactions",
        ("none", "v1"),
        "S31",
        "KIP-890 (3.6): a leader that has forgotten a producer (producer.id.expiration.ms) asks the coordinator whose"
        " epoch is valid",
    ),
    _gap(
        "transactions",
        ("none", "v1", "verified"),
        "S30 late-batch,S30 late-end,S30 late-marker",
        "KIP-890 (4.0): each end of a transaction raises the epoch, so that a batch, or an EndTxn (KAFKA-17754), that"
        " comes later is refused",
    ),
    _gap(
        "marker-epoch",
        ("not-older",),
        "S30 late-marker",
        "KIP-1228 (4.2): a leader knows the transaction.version of a marker, and refuses a marker with the epoch of"
        " the open transaction",
    ),
)
"""All gaps: old values of switches, each with the invariants that can break under these values."""

_FORGOTTEN_PROPOSAL = (
    "no release guarantees it: a leader learns a partition epoch from the response to its ISR proposal. Metadata of"
    " that epoch then ends a newer proposal, which the controller may still accept (Partition.makeLeader, KAFKA-13790)"
)

_REMOVED_ELIGIBLE = (
    "no release guarantees it: a replica that a reassignment removes stays in the ELR while the ISR is smaller than"
    " min.insync.replicas (PartitionChangeBuilder.maybePopulateTargetElr)"
)

UNPROMISED = {
    "S3 forgotten-proposal": _FORGOTTEN_PROPOSAL,
    "S4 forgotten-proposal": _FORGOTTEN_PROPOSAL,
    "S6 forgotten-proposal": _FORGOTTEN_PROPOSAL,
    "S6 earlier-min-isr": "no release guarantees it: a leader uses the min.insync.replicas that it knows, and it"
    " applies partitions before configuration from the same metadata (BrokerMetadataPublisher.onMetadataUpdate,"
    " Partition.effectiveMinIsr). The controller knows the larger value, and keeps replicas in the ELR that the leader"
    " no longer waits for",
    "S19 reverted-isr": "no release guarantees it: if a reassignment is cancelled while only its added replicas are in"
    " the ISR, and unclean elections are enabled, the first of the other replicas joins the ISR, even if it is fenced"
    " (PartitionReassignmentRevert)",
    "S6 removed-eligible": f"{_REMOVED_ELIGIBLE}. Once it is a replica again, it may be elected with an empty log",
    "L2 removed-eligible": f"{_REMOVED_ELIGIBLE}. It cannot lead, nor can the last leader while the ELR has it",
    "L2 new-disk": "no release guarantees it: the last known leader of a partition without an ELR is elected when its"
    " broker is unfenced, unless its replica is in a directory that the broker does not have, as after a change of"
    " the disk. The report of the new directory does not elect it either"
    " (ReplicationControlManager.handleAssignReplicasToDirs, LeaderAcceptor)",
    "L3 untaken-hw": "no release guarantees it: the follower ignores the high watermark in a response that reports"
    " diverging logs, and in a response to a fetch of an earlier leader epoch. The fetch session sends a high"
    " watermark only once (AbstractFetcherThread.processFetchRequest, CachedPartition.maybeUpdateResponseData), so it"
    " comes with the next record",
    "L2 cleared-elr": "no release guarantees it: a change of min.insync.replicas clears the ELR and the last known"
    " ELR even if the ISR is empty (ReplicationControlManager.removeTopicElrs), and then only an unclean election"
    " finds a leader. A changed level of eligible.leader.replicas.version may do the same",
    "S32 forgotten-marker": "no release guarantees it: a snapshot of the producers does not say which markers are"
    " not replicated yet. A log that is opened or truncated begins with a snapshot, and is assumed to end below the"
    " high watermark (ProducerStateManager.truncateAndReload)",
    "S10 refused-append": "no release guarantees it: an injected fatal error refuses a batch that was appended, so the"
    " producer reuses its sequence number (TransactionManager.adjustSequencesDueToFailedBatch). The leader takes the"
    " next batch for a duplicate and acknowledges it (ProducerStateEntry.findDuplicateBatch)",
    "S30 aborted-by-operator": "no release guarantees it: an operator who aborts a transaction in one partition"
    " (kafka-transactions abort) asks no coordinator. A transaction that was not hanging may be committed elsewhere",
    "S30 forgotten-decision": "no release keeps a decision if all brokers that stored it lose it: an unclean leader of"
    " `__transaction_state` (transaction.state.log.min.isr), or disks that lost bytes",
    "S37 forgotten-state": "no release keeps an acknowledgement if all brokers that stored it lose it: an unclean"
    " leader of `__share_group_state` (share.coordinator.state.topic.min.isr), or disks that lost bytes",
}
"""Invariants that can break even under Kafka's newest rules, each with the reason."""


def gaps(rules: Rules, invariant: str, happened: Container[str] = ()) -> tuple[Gap, ...]:
    """Return the gaps that explain why the rules do not promise the invariant; empty if they promise it.

    Args:
        happened: circumstances that have happened in the run (`Circumstances.seen`).
    """
    return tuple(
        gap
        for gap in GAPS
        if invariant in gap.invariants and gap.concerns(rules) and all(item in happened for item in gap.after)
    )


def missing_rules(rules: Rules, invariant: str, happened: Container[str] = ()) -> tuple[str, ...]:
    """Return texts that say why the rules do not promise the invariant; empty if they promise it."""
    if invariant in UNPROMISED:
        return (UNPROMISED[invariant],)
    return tuple(gap.sentence(rules) for gap in gaps(rules, invariant, happened))


# ------------------------------------------------------------------------------------------------------------- features
#
# Some rules depend on the levels of features, which an operator can change during the run.


def rules_after(event: trace.ConfigAltered, first: Rules, present: Rules) -> Rules:
    """Return the rules that are in force after a change of configuration.

    Args:
        first: rules at the beginning of the run.
        present: rules before the event.
    """
    if (event.topic, event.broker, event.group) != (None, None, None) or event.value is None:
        return present
    if event.key == ELR_VERSION:
        return present.changed({"elr": int(event.value) > 0})
    if event.key == TRANSACTION_VERSION:
        without = "verified" if first.transactions == "v2" else first.transactions
        return present.changed({"transactions": "v2" if int(event.value) >= TRANSACTIONS_V2 else without})
    return present

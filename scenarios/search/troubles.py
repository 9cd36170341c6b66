"""Groups of related faults ("troubles") for random schedules: for old eras, for transactions, and injected errors.

Independent faults rarely coincide in an interesting way, such as elections in a row while no replica can fetch, a power
failure of the whole cluster, or a response to a broker's former incarnation. A trouble is a few steps that cause such a
situation. For an old era, these are the situations in which its missing rules matter.
"""

from __future__ import annotations

import random
from typing import Any

from cluster.protocol.answer_errors import ERRORS
from cluster.protocol.versions import api_key
from replica.errors import RETRIABLE
from replica.ids import TRANSACTIONS_TOPIC
from replica.rules import Rules

# ---------------------------------------------------------------------------------------------------------------- times
#
# The times at which the phases of a random schedule begin, and the lengths of its parts.
#
# A schedule is short, because only the coincidence of faults matters, and simulating an undisturbed cluster costs as
# much. Sessions, lag times and faults are all several times shorter than in practice, in similar proportions.

CHAOS_BEGINS_MS = 1_000
QUORUM_STANDS_MS = 6_000
CHAOS_ENDS_MS = 14_000
SENDING_ENDS_MS = 16_000
HEALED_MS = 18_000
TROUBLES_MS = (QUORUM_STANDS_MS + 500, CHAOS_ENDS_MS - 3000)
"""Interval (milliseconds of the run) in which a trouble may begin."""
STARTS_MS = (HEALED_MS, HEALED_MS + 3000, HEALED_MS + 12_000)
"""Times at which stopped nodes are started, several because a node that still shuts down refuses to start."""
DURATION_MS = 108_000
"""Duration of a schedule: more than the minute that the checks in liveness.py wait after the last start."""

GAPS_MS = (1, 15, 60, 200, 700, 2500)
"""Delays between related steps."""
LASTING_MS = (50, 300, 1000, 2500, 5000)
SESSIONS_MS = ((3000, 1000), (1500, 500))
"""Pairs of broker.session.timeout.ms and broker.heartbeat.interval.ms."""
LAG_MS = (1500, 2500, 4000)
"""Values of replica.lag.time.max.ms."""
FETCH_WAITS_MS = (500, 1000)
"""Values of replica.fetch.wait.max.ms, shorter than any lag time. Followers of an idle leader fetch this often."""
REQUEST_MS = (1000, 2500, 10_000)
"""Values of request.timeout.ms of producers."""
DELIVERY_MS = (1500, 7000)
"""Values of delivery.timeout.ms of a producer that may give up."""

Tree = dict[str, Any]

_GAPS_MS = GAPS_MS[1:]


def lasting(rng: random.Random, verb: str, payload: Any, *, at_ms: int, label: str) -> dict[str, Any]:
    """Return a step of the timeline that ends after a random time. Later steps refer to it by `label`."""
    return {"at": f"{at_ms}ms", verb: payload, "as": label, "for": f"{rng.choice(LASTING_MS[1:])}ms"}


def hold_of(rng: random.Random, sender: str, api: str) -> dict[str, Any]:
    """Return the payload of a `hold` step for an API's requests, responses or both from `sender` to the brokers."""
    hold = {"from": sender, "to": "brokers", "api": api}
    if rng.random() < 0.5:
        hold["part"] = rng.choice(("request", "response"))
    return hold


def may_miss_a_rule(rules: Rules) -> bool:
    """Return True if the era is older than KIP-903, the newest of the rules that `old_troubles` test."""
    return rules.isr_eligibility != "broker-epoch"


def old_troubles(rng: random.Random, tree: Tree, rules: Rules, *, safe: bool, begin_ms: int, end_ms: int) -> list[Tree]:
    """Return the steps of one or two troubles for an old era, which begin between `begin_ms` and `end_ms`.

    Args:
        tree: the schedule, to which the steps are not yet added.
        safe: True if no disk may lose data.
    """
    brokers = list(tree["cluster"]["brokers"])
    kinds = [_leaders_in_a_row, _leaders_over_links, _leaders_over_links, _all_blink]
    if rules.membership == "zk-session":
        kinds.append(_late_orders)
    if not safe:
        kinds += [_dark, _stale_join]
    steps: list[Tree] = []
    for number in range(rng.choice((1, 1, 2))):
        trouble = _Trouble(rng, brokers, _partition(rng, tree), rules, begin_ms, end_ms, number)
        steps += rng.choice(kinds)(trouble)
    return steps


def leaders_over_links(rng: random.Random, tree: Tree, rules: Rules, *, begin_ms: int, end_ms: int) -> list[Tree]:
    """Return steps that elect leaders while links between brokers hold messages, for schedules of any era."""
    brokers = list(tree["cluster"]["brokers"])
    return _leaders_over_links(_Trouble(rng, brokers, _partition(rng, tree), rules, begin_ms, end_ms, 0))


def _partition(rng: random.Random, tree: Tree) -> str:
    partitions = tree["topics"]["t"]["partitions"]
    return f"t-{rng.randrange(partitions if isinstance(partitions, int) else len(partitions))}"


class _Trouble:
    """A builder of the steps of one trouble, with its brokers, its partition and its time."""

    def __init__(
        self,
        rng: random.Random,
        brokers: list[str],
        partition: str,
        rules: Rules,
        begin_ms: int,
        end_ms: int,
        number: int,
    ) -> None:
        self.rng = rng
        self.brokers = brokers
        self.partition = partition
        self.rules = rules
        self.begin_ms = begin_ms
        self.at_ms = rng.randint(begin_ms, end_ms)
        self._number = number

    def named(self, label: str) -> str:
        return f"trouble-{self._number}-{label}"

    def step(self, after_ms: int, verb: str, payload: Any) -> Tree:
        return {"at": f"{self.at_ms + after_ms}ms", verb: payload}

    def lasting(self, after_ms: int, verb: str, payload: Any, for_ms: int, label: str) -> Tree:
        return {**self.step(after_ms, verb, payload), "as": self.named(label), "for": f"{for_ms}ms"}

    def elections(self) -> list[Tree]:
        """Return `elect` steps of random brokers. The controller refuses brokers without a replica in the ISR."""
        steps, after_ms = [], 0
        for _ in range(self.rng.randint(2, 8)):
            after_ms += self.rng.choice(_GAPS_MS)
            wanted = {"partition": self.partition, "broker": self.rng.choice(self.brokers)}
            steps.append(self.step(after_ms, "elect", wanted))
        return steps


def _leaders_in_a_row(trouble: _Trouble) -> list[Tree]:
    """Return elections while fetches are held, which makes the leaders' logs diverge (KIP-101, KIP-279, KAFKA-7128)."""
    hold: Tree = {
        "from": "brokers",
        "to": "brokers",
        "api": "Fetch",
        "part": trouble.rng.choice(("request", "response")),
    }
    if trouble.rng.random() < 0.4:
        hold["from"] = trouble.rng.choice(trouble.brokers)
    return [trouble.lasting(0, "hold", hold, trouble.rng.choice(LASTING_MS[1:]), "hold"), *trouble.elections()]


def _leaders_over_links(trouble: _Trouble) -> list[Tree]:
    """Return elections while single links hold messages in one direction, each link for a different time.

    One broker may be cut off before. Messages to or from a former leader then arrive under a new leader (KIP-320), and
    a returning replica catches up with a leader that lacks acknowledged records (KAFKA-7128).
    """
    rng, steps = trouble.rng, []
    if rng.random() < 0.5:
        apart = rng.choice(trouble.brokers)
        others = [broker for broker in trouble.brokers if broker != apart]
        cut = {"between": [apart, rng.choice((others, [rng.choice(others)]))]}
        before_ms = min(rng.choice(LASTING_MS[2:]), trouble.at_ms - trouble.begin_ms)
        for_ms = max(1, before_ms + rng.choice((-60, 15, 200, 2500)))
        steps.append(trouble.lasting(-before_ms, "cut", cut, for_ms, "cut"))
    for number in range(rng.randint(1, 3)):
        item, other = rng.sample(trouble.brokers, 2)
        hold = {"from": item, "to": other, "api": "Fetch", "part": rng.choice(("request", "response"))}
        after_ms, for_ms = rng.choice((0, *_GAPS_MS)), rng.choice(LASTING_MS[1:])
        steps.append(trouble.lasting(after_ms, "hold", hold, for_ms, f"link-{number}"))
    return steps + trouble.elections()


def _late_orders(trouble: _Trouble) -> list[Tree]:
    """Return elections while LeaderAndIsr to one broker is delayed, so brokers are in different epochs (KIP-320)."""
    hold = {"from": "controller", "to": trouble.rng.choice(trouble.brokers), "api": "LeaderAndIsr"}
    return [trouble.lasting(0, "hold", hold, trouble.rng.choice(LASTING_MS[1:]), "hold"), *trouble.elections()]


def _all_blink(trouble: _Trouble) -> list[Tree]:
    """Return kills of all brokers in quick succession.

    Without KIP-101, a replica that has truncated its log to an old high watermark may then become leader.
    """
    # All brokers are killed before the faults are repaired and nodes are started.
    gap_ms = min(trouble.rng.choice(_GAPS_MS), (HEALED_MS - 1 - trouble.at_ms) // len(trouble.brokers))
    order = trouble.rng.sample(trouble.brokers, len(trouble.brokers))
    return [
        trouble.lasting(number * gap_ms, "kill", broker, trouble.rng.choice(LASTING_MS[:3]), f"kill-{broker}")
        for number, broker in enumerate(order)
    ]


def _dark(trouble: _Trouble) -> list[Tree]:
    """Return power failures of all brokers at nearly the same time, or of one leader alone (KIP-380)."""
    for_ms = trouble.rng.choice(LASTING_MS)
    leader = f"leader({trouble.partition})"
    victims = trouble.brokers if trouble.rng.random() < 0.6 else [leader]
    return [
        trouble.lasting(number, "power_off", victim, for_ms + trouble.rng.choice((0, 100)), f"power-{number}")
        for number, victim in enumerate(victims)
    ]


def _stale_join(trouble: _Trouble) -> list[Tree]:
    """Return steps that wipe a follower's disk while a request to add it to the ISR is in flight (KIP-903)."""
    leader = trouble.rng.choice((f"leader({trouble.partition})", trouble.brokers[0]))
    follower = trouble.rng.choice(trouble.brokers)
    asks = trouble.rules.isr_update == "alter-partition"
    to = "controller" if asks and trouble.rules.membership == "zk-session" else "c1"
    hold = {"from": leader, "to": to, "api": "AlterPartition" if asks else "ZooKeeper", "part": "request"}
    died, away_ms = trouble.named("kill"), max(*LAG_MS, *SESSIONS_MS[0]) + 600
    return [
        trouble.lasting(0, "pause", follower, away_ms, "pause"),
        trouble.lasting(away_ms - 100, "hold", hold, 2500, "hold"),
        {**trouble.step(away_ms + 600, "kill", follower), "as": died},
        trouble.step(away_ms + 700, "wipe", f"@{died}"),
        trouble.step(away_ms + 800, "start", f"@{died}"),
    ]


# --------------------------------------------------------------------------------------------------------- transactions
#
# Transactions in random schedules: transactional producers, read_committed consumers, and faults of the transaction
# coordinator, which is the leader of a partition of the internal topic.

COORDINATOR = f"leader({TRANSACTIONS_TOPIC}-0)"
TIMEOUTS_MS = (4000, 15_000, 60_000)
"""Values of transaction.timeout.ms."""
HELD = ("WriteTxnMarkers", "EndTxn", "AddPartitionsToTxn", "Produce")


def add_transactions(tree: dict[str, Any], rules: Rules, *, safe: bool) -> list[dict[str, Any]]:
    """Make some clients of a schedule transactional, with their own random stream, and return steps for its timeline.

    Some producers get the same transactional.id and fence each other.
    """
    rng = random.Random(f"{tree['seed']}/transactions")
    tree["cluster"]["config"] |= {
        "transaction.state.log.num.partitions": rng.choice((1, 1, 3)),
        "transaction.state.log.min.isr": 2 if safe else rng.choice((1, 2, 2)),
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 2000,
    }
    ids: list[str] = []
    for name, workload in tree["workloads"].items():
        if workload["kind"] == "consumer":
            workload["config"]["isolation.level"] = rng.choice(("read_committed", "read_committed", "read_uncommitted"))
        elif not ids or rng.random() < 0.7:
            ids.append(rng.choice(ids) if ids and rng.random() < 0.3 else f"tx-{name}")
            _make_transactional(rng, workload, ids[-1])
    begin_ms, end_ms = TROUBLES_MS
    return [
        _trouble(rng, rules, number, rng.randint(begin_ms, end_ms), safe=safe) for number in range(rng.randint(0, 3))
    ]


def _make_transactional(rng: random.Random, workload: dict[str, Any], transactional_id: str) -> None:
    workload["config"] |= {
        "acks": "all",
        "enable.idempotence": True,
        "transactional.id": transactional_id,
        "transaction.timeout.ms": rng.choice(TIMEOUTS_MS),
    }
    workload["transaction"] = {"records": rng.choice((1, 3, 3, 8))}
    if rng.random() < 0.6:
        workload["transaction"]["abort-every"] = rng.choice((2, 3, 5))


def _trouble(rng: random.Random, rules: Rules, number: int, at_ms: int, *, safe: bool) -> dict[str, Any]:
    verb = rng.choice(("pause", "hold", "hold", "cut") if safe else ("kill", "pause", "hold", "hold", "cut"))
    payload: Any = COORDINATOR
    if verb == "cut":
        payload = {"between": [COORDINATOR, rng.choice(("clients", "leader(t-0)", "leader(t-0)"))]}
    elif verb == "hold":
        payload = _hold(rng, rules)
    return lasting(rng, verb, payload, at_ms=at_ms, label=f"transaction-{verb}-{number}")


def _hold(rng: random.Random, rules: Rules) -> dict[str, Any]:
    """Return the payload of a `hold` step for an API of transactions.

    AddPartitionsToTxn is held from leaders in eras with KIP-890 and from clients in earlier eras.
    """
    api = rng.choice(HELD)
    asked_by_leaders = api == "AddPartitionsToTxn" and rules.transactions != "v1"
    sender = "brokers" if api == "WriteTxnMarkers" or asked_by_leaders else "clients"
    return hold_of(rng, sender, api)


# ----------------------------------------------------------------------------------------------------- injected errors

FAILED_APIS = (
    "Produce", "Produce", "Produce", "Fetch", "Fetch", "Metadata", "ListOffsets", "OffsetForLeaderEpoch",
    "FindCoordinator", "JoinGroup", "SyncGroup", "Heartbeat", "ConsumerGroupHeartbeat", "OffsetCommit", "OffsetFetch",
    "InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn",
)  # fmt: skip
"""APIs whose requests may fail. An API that is repeated is chosen more often."""


def add_errors(tree: Tree, *, safe: bool) -> list[Tree]:
    """Return `fail` steps, by which brokers answer requests with an error or late, with their own random stream.

    A safe schedule has only retriable errors.
    """
    rng = random.Random(f"{tree['seed']}/errors")
    return [
        {
            "at": f"{rng.randint(QUORUM_STANDS_MS, CHAOS_ENDS_MS)}ms",
            "fail": _failed(rng, tree, safe=safe),
            "as": f"fail-{number}",
            "for": f"{rng.choice(LASTING_MS[1:])}ms",
        }
        for number in range(rng.randint(1, 5))
    ]


def _failed(rng: random.Random, tree: Tree, *, safe: bool) -> Tree:
    api = rng.choice(FAILED_APIS)
    known = ERRORS[api_key(api)]
    fail: Tree = {"api": api, "times": rng.choice((1, 1, 3, "all"))}
    if rng.random() < 0.5:
        fail["broker"] = rng.choice((*tree["cluster"]["brokers"], f"leader({_partition(rng, tree)})"))
    how = rng.choice(("errors", "errors", "errors", "delay", "throttle", "close"))
    if how == "errors":
        names = sorted(code.name for code in known.codes if not safe or code in RETRIABLE)
        fail |= {"errors": rng.choices(names, k=rng.choice((1, 1, 3))), "when": rng.choice(("before", "after"))}
        if known.by_partition and rng.random() < 0.5:
            fail["partitions"] = [_partition(rng, tree)]
    else:
        values = {"delay": ("200ms", "3s"), "throttle": ("200ms", "3s"), "close": ("after", "instead")}
        fail[how] = rng.choice(values[how])
    return fail

"""Extra faults of random schedules for an old era: moments at which the missing rules make a difference.

The ordinary faults rarely meet: leaders that follow each other while no replica can fetch, a whole cluster that loses
power, a broker whose answer comes from a former life. Each trouble here is a few steps that belong together.
"""

from __future__ import annotations

import random
from typing import Any

from replica.rules import Rules
from scenarios.search.client_troubles import GAPS_MS, HEALED_MS, LAG_MS, LASTING_MS, SESSIONS_MS

Tree = dict[str, Any]

_GAPS_MS = GAPS_MS[1:]


def may_miss_a_rule(rules: Rules) -> bool:
    """Whether the era is older than KIP-903, the last rule that these troubles are about."""
    return rules.isr_eligibility != "broker-epoch"


def old_troubles(rng: random.Random, tree: Tree, rules: Rules, *, safe: bool, begin_ms: int, end_ms: int) -> list[Tree]:
    """One or two of them as timeline steps, each beginning between `begin_ms` and `end_ms`; labels are `trouble-...`.

    Disks lose what was not flushed, or all of it, only where `safe` does not promise that they do not.
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
    """For schedules of any era."""
    brokers = list(tree["cluster"]["brokers"])
    return _leaders_over_links(_Trouble(rng, brokers, _partition(rng, tree), rules, begin_ms, end_ms, 0))


def _partition(rng: random.Random, tree: Tree) -> str:
    partitions = tree["topics"]["t"]["partitions"]
    return f"t-{rng.randrange(partitions if isinstance(partitions, int) else len(partitions))}"


class _Trouble:
    """Where and when one trouble happens."""

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
        """Leaders one after the other; a broker that holds no replica or is not in sync is refused."""
        steps, after_ms = [], 0
        for _ in range(self.rng.randint(2, 8)):
            after_ms += self.rng.choice(_GAPS_MS)
            wanted = {"partition": self.partition, "broker": self.rng.choice(self.brokers)}
            steps.append(self.step(after_ms, "elect", wanted))
        return steps


def _leaders_in_a_row(trouble: _Trouble) -> list[Tree]:
    """While fetches are held, so that each leader has records that no other has (KIP-101, KIP-279, KAFKA-7128)."""
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
    """While single links hold what passes one way, each for a time of its own; one broker may have been apart before.

    What was said to, or by, a leader of before comes to one of now (KIP-320); a replica that is back catches up with
    a leader that knows less than was acked (KAFKA-7128).
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
        one, other = rng.sample(trouble.brokers, 2)
        hold = {"from": one, "to": other, "api": "Fetch", "part": rng.choice(("request", "response"))}
        after_ms, for_ms = rng.choice((0, *_GAPS_MS)), rng.choice(LASTING_MS[1:])
        steps.append(trouble.lasting(after_ms, "hold", hold, for_ms, f"link-{number}"))
    return steps + trouble.elections()


def _late_orders(trouble: _Trouble) -> list[Tree]:
    """A broker hears late of its leader: leaders and followers of different epochs meet (KIP-320)."""
    hold = {"from": "controller", "to": trouble.rng.choice(trouble.brokers), "api": "LeaderAndIsr"}
    return [trouble.lasting(0, "hold", hold, trouble.rng.choice(LASTING_MS[1:]), "hold"), *trouble.elections()]


def _all_blink(trouble: _Trouble) -> list[Tree]:
    """Every broker restarts, one shortly after the other (KIP-101: a replica cut to an old high watermark leads)."""
    # All are down before everything is mended and started.
    gap_ms = min(trouble.rng.choice(_GAPS_MS), (HEALED_MS - 1 - trouble.at_ms) // len(trouble.brokers))
    order = trouble.rng.sample(trouble.brokers, len(trouble.brokers))
    return [
        trouble.lasting(number * gap_ms, "kill", broker, trouble.rng.choice(LASTING_MS[:3]), f"kill-{broker}")
        for number, broker in enumerate(order)
    ]


def _dark(trouble: _Trouble) -> list[Tree]:
    """The power fails for every broker at once, or for the leader alone and shortly (KIP-380)."""
    for_ms = trouble.rng.choice(LASTING_MS)
    leader = f"leader({trouble.partition})"
    victims = trouble.brokers if trouble.rng.random() < 0.6 else [leader]
    return [
        trouble.lasting(number, "power_off", victim, for_ms + trouble.rng.choice((0, 100)), f"power-{number}")
        for number, victim in enumerate(victims)
    ]


def _stale_join(trouble: _Trouble) -> list[Tree]:
    """A follower loses its disk while the word that it has caught up is still under way (KIP-903)."""
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

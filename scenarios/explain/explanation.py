"""The story of one record as data: moments, its holders over time, and changes that would have saved it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from replica.ids import TopicPartition
from scenarios.explain.remedies import Remedies


@dataclass(slots=True)
class Moment:
    """One step of the story. decisive: without it the record would not have met its end."""

    at_us: int
    seq: int
    sentence: str
    decisive: bool = False


@dataclass(frozen=True, slots=True)
class Holding:
    """The holders of the record at a moment: a word per broker, and its producer's belief."""

    at_us: int
    brokers: Mapping[str, str]
    producer: str


@dataclass(slots=True)
class Explanation:
    """The story of one record. fate: as the verdict has it; kept; or in the log, but of a transaction that is open or
    was aborted.

    chain: seqs of the events that lead from the send to the last moment, each the cause of the next
    """

    record: str
    partition: TopicPartition
    producer: str
    acks: int
    scenario: str
    seed: int
    fate: str
    moments: list[Moment] = field(default_factory=list)
    holdings: list[Holding] = field(default_factory=list)
    ending: str = ""
    remedies: Remedies = field(default_factory=Remedies)

    def as_json(self) -> dict[str, Any]:
        return {
            "record": self.record,
            "partition": str(self.partition),
            "producer": self.producer,
            "acks": self.acks,
            "scenario": self.scenario,
            "seed": self.seed,
            "fate": self.fate,
            "moments": [
                {"at_us": one.at_us, "seq": one.seq, "sentence": one.sentence, "decisive": one.decisive}
                for one in self.moments
            ],
            "holdings": [
                {"at_us": one.at_us, "brokers": dict(one.brokers), "producer": one.producer} for one in self.holdings
            ],
            "ending": self.ending,
            "would_have_saved": list(self.remedies.would),
            "would_not_have_saved": list(self.remedies.would_not),
        }

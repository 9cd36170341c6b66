"""Our words for anomalies in a verdict's order, and Jepsen's class beside each (jepsen/tests/kafka.clj)."""

from __future__ import annotations

from collections.abc import Mapping

JEPSEN_CLASS: Mapping[str, str | None] = {
    "lost": "lost-write",
    "unseen": "unseen",
    "dirty-read": "G1a",
    "diverged": "inconsistent-offsets",
    "duplicated": "duplicate",
    "reordered": "nonmonotonic-send",
    "offset-regression": "nonmonotonic-poll",
    "poll-skip": "poll-skip",
    "invariant": None,  # a broken rule of the protocol; Jepsen sees clients only
}

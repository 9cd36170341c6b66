"""The kinds of anomaly a verdict can name, in the order it names them."""

from __future__ import annotations

from collections.abc import Mapping

ANOMALIES = (
    "lost",
    "unseen",
    "dirty-read",
    "diverged",
    "duplicated",
    "reordered",
    "offset-regression",
    "poll-skip",
    "invariant",
)


# --------------------------------------------------------------------------------------------------------------- jepsen
#
# Our words for anomalies in a verdict's order, and Jepsen's class beside each (jepsen/tests/kafka.clj).

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

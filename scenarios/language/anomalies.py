"""The kinds of anomaly a verdict can name, in the order it names them."""

from __future__ import annotations

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

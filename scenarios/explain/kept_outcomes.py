"""Store the results of `explain --what-if` in the run's folder, for the report on the run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scenarios.process.work_folders import write_whole

if TYPE_CHECKING:
    from scenarios.explain.what_if import RecordFate

KEPT_NAME = "what_if.json"
RECORDS_MAX = 100
"""Largest number of records whose outcomes are stored; the oldest are dropped first."""
CHANGES_MAX = 100
BYTES_MAX = 1 << 20


@dataclass(frozen=True, slots=True)
class KeptOutcome:
    """The outcome of a record in a run with one change.

    Attributes:
        change: description of the change.
        sentence: description of the outcome.
    """

    change: str
    saved: bool
    sentence: str


def keep_outcomes(run_dir: Path, trace_sha256: str, outcomes: Mapping[str, Sequence[RecordFate]]) -> None:
    """Add outcomes to those stored for the same trace. Raises OSError."""
    kept = kept_outcomes(run_dir, trace_sha256)
    for record, fates in outcomes.items():
        kept.pop(record, None)
        kept[record] = tuple(KeptOutcome(fate.change.what, fate.saved, fate.sentence) for fate in fates)
    newest = list(kept.items())[-RECORDS_MAX:]
    records = {record: [[item.change, item.saved, item.sentence] for item in found] for record, found in newest}
    text = json.dumps({"trace_sha256": trace_sha256, "records": records}, indent=1)
    write_whole(run_dir / KEPT_NAME, text + "\n")


def kept_outcomes(run_dir: Path, trace_sha256: str) -> dict[str, tuple[KeptOutcome, ...]]:
    """Return the stored outcomes by record, empty if the run's folder has no valid file for this trace."""
    try:
        with (run_dir / KEPT_NAME).open("rb") as stream:
            data = stream.read(BYTES_MAX + 1)
        document = json.loads(data) if len(data) <= BYTES_MAX else None
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(document, dict) or document.get("trace_sha256") != trace_sha256:
        return {}
    records = document.get("records")
    if not isinstance(records, dict) or len(records) > RECORDS_MAX:
        return {}
    found = {record: _outcomes(entries) for record, entries in records.items()}
    return {record: outcomes for record, outcomes in found.items() if outcomes}


def _outcomes(entries: Any) -> tuple[KeptOutcome, ...]:
    if not isinstance(entries, list) or len(entries) > CHANGES_MAX:
        return ()
    found = []
    for entry in entries:
        match entry:
            case [str(change), bool(saved), str(sentence)]:
                found.append(KeptOutcome(change, saved, sentence))
            case _:
                return ()
    return tuple(found)

"""Play one scenario for the site: its runs, the story of a lost record, and the changes that would have saved it.

A job plays a scenario file with all its variants. It writes the pages of the runs, and a JSON document with everything
that the site says about the scenario. The document is kept until the file or Highwater's own code changes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any

from scenarios.cli.catalogue import story
from scenarios.cli.screens import compared
from scenarios.cli.site.releases import ERAS, outcomes_by_release, release_rows, saving_rules
from scenarios.cli.site.symptoms import seen_in, shown_by
from scenarios.cli.view import RUNS_MAX
from scenarios.explain.explanation import ENDS, Explanation, Moment
from scenarios.explain.record import explain_record
from scenarios.explain.what_if import (
    RecordFate,
    SettingsChange,
    eras_for,
    outcome_of,
    play_changes,
    rules_for,
    settings_for,
)
from scenarios.language.parse.loading import load_file
from scenarios.language.rules_table import AS_WRITTEN
from scenarios.language.spec import Scenario, ScenarioFile
from scenarios.language.write import describe, lock
from scenarios.process.identity import identity
from scenarios.process.work_folders import write_whole
from scenarios.run.runner import RunResult, run_scenario
from scenarios.terminal.style import Style
from scenarios.view.page import PLAYER, page_of, run_of_page

STEPS_SHOWN = 5
"""Largest number of events shown in a record's story."""
WAITS_SHOWN = 3
BAD_ENDS = ("lost", "unseen", "duplicated", "missing", "reordered", "failed")
"""Classes of records from which the story's record is chosen, in order of preference."""
NOTHING_CHANGED: Mapping[str, Any] = MappingProxyType({"saved_by": [], "releases": []})


@dataclass(frozen=True, slots=True)
class PlayJob:
    """The job to play one scenario file.

    Attributes:
        path: the scenario file.
        out: the folder of the site.
        key: digest of everything that the result depends on.
    """

    path: str
    out: str
    key: str


def key_of(path: Path) -> str:
    """Return a digest of the scenario file, Highwater's code, and the script of the pages."""
    digest = hashlib.sha256(json.dumps(identity()).encode())
    for content in (files("scenarios.view").joinpath(PLAYER).read_bytes(), path.read_bytes()):
        digest.update(hashlib.sha256(content).digest())
    return digest.hexdigest()


def kept_document(job: PlayJob) -> dict[str, Any] | None:
    """Return the document that an earlier build made from the same file; None if the file has to be played."""
    try:
        document = json.loads(_document_path(job).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(document, dict) or document.get("made_from") != job.key:
        return None
    is_whole = all((Path(job.out) / page["path"]).is_file() for page in document["pages"])
    return document if is_whole else None


def _document_path(job: PlayJob) -> Path:
    return Path(job.out) / "data" / f"{Path(job.path).stem}.json"


def play(job: PlayJob) -> dict[str, Any]:
    """Play a file and all its variants, write their pages, and return the document about them.

    Raises:
        OSError: a file cannot be written.
        ScenarioInvalid: the file is not valid.
    """
    file = load_file(job.path)
    results = [run_scenario(item, runs_dir=None, keep_rows=True) for item in file.all]
    document = {
        "made_from": job.key,
        **of_file(file),
        "runs": [_of_run(result) for result in results],
        **_story(results),
        "pages": list(_write_pages(Path(job.out), file, results)),
    }
    write_whole(_document_path(job), json.dumps(document, indent=1) + "\n")
    return document


def of_file(file: ScenarioFile) -> dict[str, Any]:
    """Return the part of the document that does not depend on the runs: title, story, timeline, settings and so on."""
    scenario = file.scenario
    return {
        "id": scenario.id,
        "title": scenario.title,
        "question": scenario.question or "",
        "story": story(file.text),
        "profile": scenario.profile,
        "tags": list(scenario.tags),
        "lesson": scenario.lesson,
        "lasts_s": scenario.duration_us / 1e6,
        "timeline": [line.strip() for line in describe.timeline_lines(scenario)],
        "questions": [question.ask for question in scenario.questions],
        "sources": [{"ref": source.ref, "url": source.url, "recalled": source.recalled} for source in scenario.sources],
        # The settings of the file itself come before those of its variants.
        "settings": list(dict.fromkeys(f"{key}={value}" for item in file.all for key, value in _settings(item))),
        "yaml": file.text,
    }


def _settings(scenario: Scenario) -> Iterator[tuple[str, Any]]:
    """Yield the settings in a scenario as (key, value). min.insync.replicas is included even if it has the default."""
    yield from scenario.cluster.config.items()
    for topic in scenario.topics.values():
        yield from topic.config.items()
        yield "min.insync.replicas", scenario.topic_config(topic.name).min_insync_replicas
    for workload in scenario.workloads.values():
        yield from workload.config.items()


def _of_run(result: RunResult) -> dict[str, Any]:
    seen = seen_in(result.rows, result.summary)
    return {
        "variant": result.scenario.variant or AS_WRITTEN,
        "era": result.scenario.profile,
        "title": result.scenario.title,
        "verdict": ", ".join(result.summary["verdict"]) or "ok",
        "figures": compared(result.summary, Style(plain=True)),
        "errors": sorted(seen.errors),
        "symptoms": shown_by(seen),
        "waits": [_longest(wait) for wait in result.summary.get("waits", ())[:WAITS_SHOWN]],
    }


def _longest(wait: Mapping[str, Any]) -> dict[str, str]:
    """Return the sentence and the advice for the longest part of a period without writes or reads."""
    stretch = max(wait["stretches"], key=lambda item: item["to_us"] - item["from_us"])
    return {"sentence": stretch["sentence"], "advice": stretch["advice"] or ""}


# -------------------------------------------------------------------------------------------------------------- stories


def _story(results: Sequence[RunResult]) -> dict[str, Any]:
    """Return the story of one record with a bad end, and, if it was lost, the changes that would have saved it.

    The record is from the first class of BAD_ENDS that occurs, and from the first run with such a record.
    """
    for kind in BAD_ENDS:
        for result in results:
            records = result.summary["records"].get(kind, ())
            if records and result.ledger.records.get(records[0]) is not None:
                found = explain_record(result.rows, records[0])
                return {"why": _why(result, found), **(_changed(result, found) if kind == "lost" else NOTHING_CHANGED)}
    return {"why": None, **NOTHING_CHANGED}


def _why(result: RunResult, explanation: Explanation) -> dict[str, Any]:
    return {
        "record": explanation.record,
        "end": ENDS[explanation.fate],
        "variant": result.scenario.variant or AS_WRITTEN,
        "moments": [[moment.at_us / 1e6, moment.sentence] for moment in _steps(explanation.moments)],
        "ending": explanation.ending,
        "would": list(explanation.remedies.would),
        "would_not": list(explanation.remedies.would_not),
    }


def _steps(moments: Sequence[Moment]) -> list[Moment]:
    """Return at most STEPS_SHOWN events of a story, in order. The last and the decisive events have priority."""
    ranked = sorted(moments, key=lambda moment: (moment is not moments[-1], not moment.decisive))[:STEPS_SHOWN]
    return [moment for moment in moments if moment in ranked]


def _changed(result: RunResult, explanation: Explanation) -> Mapping[str, Any]:
    """Return the outcome of a record under single changes of settings, and under the rules of other releases.

    If a release saves the record, play each rule that it changed alone as well, to show which rule saves the record.
    """
    scenario = result.scenario
    if explanation.producer not in scenario.workloads:
        return NOTHING_CHANGED
    eras = {change.what.removeprefix("profile "): change for change in eras_for(scenario, ERAS)}

    def play_era(era: str) -> RecordFate | None:
        """Return the outcome under the rules of an era. For the run's own era, nothing is played again."""
        change = eras.get(era)
        if change is None:
            return outcome_of(result.summary, explanation.record, SettingsChange(era, ()))
        return next(_fates(result, explanation, [change]), None)

    outcomes = outcomes_by_release(scenario.profile, play_era)
    rules = rules_for(scenario, saving_rules(outcomes, scenario))
    fates = _fates(result, explanation, [*settings_for(scenario, explanation.producer), *rules])
    return {
        "saved_by": [{"change": fate.change.what, "saved": fate.saved, "sentence": fate.sentence} for fate in fates],
        "releases": release_rows(outcomes),
    }


def _fates(result: RunResult, explanation: Explanation, changes: Sequence[SettingsChange]) -> Iterator[RecordFate]:
    for fates in play_changes(lock.dump(result.scenario), [explanation.record], changes, processes=1):
        yield from fates


# ---------------------------------------------------------------------------------------------------------------- pages


def _write_pages(out: Path, file: ScenarioFile, results: Sequence[RunResult]) -> Iterator[Mapping[str, str]]:
    """Write interactive pages that show the runs side by side, and yield the path and title of each page.

    A page has at most RUNS_MAX runs, and every page begins with the first run.
    """
    first, *others = results
    room = RUNS_MAX - 1
    groups = [others[start : start + room] for start in range(0, len(others), room)] or [[]]
    for number, group in enumerate(groups, 1):
        name = file.scenario.id if number == 1 else f"{file.scenario.id}-{number}"
        path = f"runs/{name}.html"
        runs = [run_of_page(item.rows, item.summary, item.scenario) for item in (first, *group)]
        write_whole(out / path, page_of(runs))
        yield {"path": path, "title": ", ".join(item.scenario.variant or AS_WRITTEN for item in (first, *group))}

"""The search index of the site: entries, and the words that find each entry.

The search itself is in static/site.js.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scenarios.cli.site.symptoms import Symptom

CODE = re.compile(r"KIP-[0-9]+|KAFKA-[0-9]+|[A-Z]{2,}(?:_[A-Z]+)+")


@dataclass(frozen=True, slots=True)
class Hit:
    """One entry of the search index.

    Attributes:
        kind: kind of the page, such as `scenario` or `lesson`.
        about: the description shown in the results.
        subject: search words for the topic of the page, with almost the weight of the title; not shown.
        words: further search words, with more weight than the description.
        rest: search words with less weight than the description.
    """

    page: str
    kind: str
    title: str
    about: str
    subject: Iterable[str] = ()
    words: Iterable[str] = ()
    rest: Iterable[str] = ()

    def as_json(self) -> list[str]:
        fields = (self.subject, self.words, self.rest)
        return [self.page, self.kind, self.title, self.about, *(_each_once(words) for words in fields)]


def index_of(hits: Sequence[Hit]) -> str:
    """Return the index as a script, because a page that was opened from a disk cannot fetch JSON."""
    entries = json.dumps([hit.as_json() for hit in hits], separators=(",", ":"), ensure_ascii=True)
    return f"window.highwaterSearch({entries});\n"


def scenario_hit(scenario: Mapping[str, Any], titles: Mapping[str, Symptom]) -> Hit:
    """Return the entry of a scenario. Its subject is the id, and the file's value of settings that variants change."""
    first = [titles[symptom] for symptom in scenario["runs"][0]["symptoms"]]
    values: dict[str, list[str]] = {}
    for setting in scenario["settings"]:
        values.setdefault(setting.partition("=")[0], []).append(setting)
    changed = [settings for settings in values.values() if len(settings) > 1]
    return Hit(
        f"scenarios/{scenario['id']}.html",
        "scenario",
        scenario["title"],
        scenario["question"],
        subject=[scenario["id"].replace("-", " "), *(settings[0] for settings in changed)],
        words=[
            *(setting for settings in changed for setting in settings),
            *scenario["tags"],
            *(run["title"] for run in scenario["runs"]),
            *(error for run in scenario["runs"] for error in run["errors"]),
            *CODE.findall(" ".join([scenario["story"], *(source["ref"] for source in scenario["sources"])])),
        ],
        rest=[*scenario["settings"], scenario["story"], *(f"{item.title} {item.words}" for item in first)],
    )


def _each_once(texts: Iterable[str]) -> str:
    return " ".join(dict.fromkeys(word for text in texts for word in text.split()))

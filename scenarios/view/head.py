"""The page's summary of a run: the cluster, the rules, and the verdict; and of a cluster that is running."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cluster.kafka.observe.observed import SAMPLE_MS
from scenarios.language.spec import Scenario
from scenarios.observe.wording import acked_of, lost_words, played_by, settings_of, sizes_of


def _label(summary: Mapping[str, Any]) -> str:
    name = summary["variant"] or "as written"
    if "cut_short" in summary:
        name += f", cut short at {summary['cut_short']['at_s']:g} s"
    return f"{name}, Kafka {summary['real_kafka']}" if "real_kafka" in summary else str(name)


def head(summary: Mapping[str, Any]) -> dict[str, Any]:
    """The page's summary of a run before it plays: the cluster, the rules, and the verdict."""
    return {
        "scenario": summary["scenario"],
        "label": _label(summary),
        "title": summary["title"],
        "seed": summary["seed"],
        "era": played_by(summary),
        "live": bool(summary.get("live")),
        "sampled": f"sampled every {SAMPLE_MS} ms" if "real_kafka" in summary else "",
        "built": settings_of(summary),
        "verdict": list(summary["verdict"]),
        "findings": [
            {key: anomaly[key] for key in ("kind", "sentence", "records", "partition")}
            for anomaly in summary["anomalies"]
        ],
        "lost": list(summary["records"]["lost"]),
        "lost_in_words": lost_words(summary["records"]["lost"], summary["records"]),
        "acked_and_lost": len(acked_of(summary["records"]["lost"], summary["records"])),
        "missing": list(summary["records"]["missing"]),
        "acked": len(summary["records"]["acked"]),
        "sent": summary["records"]["sent"],
        "duplicated": list(summary["records"]["duplicated"]),
    }


def live_head(scenario: Scenario) -> dict[str, Any]:
    """The same of a cluster that is running."""
    nothing: list[str] = []
    return {
        "scenario": scenario.id,
        "label": "running",
        "title": scenario.title,
        "question": "",
        "seed": scenario.seed,
        "era": scenario.profile,
        "live": True,
        "sampled": "",
        "built": settings_of({"setting": {**sizes_of(scenario), "acks": {}}}),
        "verdict": ["running"],
        "findings": nothing,
        "lost": nothing,
        "lost_in_words": "",
        "acked_and_lost": 0,
        "missing": nothing,
        "acked": 0,
        "sent": 0,
        "duplicated": nothing,
    }

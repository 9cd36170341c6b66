"""Which releases are played to say by the rules of which a record is lost, and what follows from their outcomes."""

from __future__ import annotations

import pytest

from replica.rules import PROFILES
from scenarios.cli.site.releases import NOT_PLAYABLE, ReleaseOutcome, outcomes_by_release, release_rows, saving_rules
from scenarios.explain.what_if import RecordFate, SettingsChange
from scenarios.language.parse.loading import load_text
from scenarios.language.spec import Scenario

ERAS = list(PROFILES)


def fate(kind: str, also_lost: tuple[str, ...] = ()) -> RecordFate:
    return RecordFate(SettingsChange("", ()), "r1", kind, also_lost, 1_000_000 * len(also_lost))


def outcomes(own: str, since: dict[str, RecordFate | None]) -> dict[str, ReleaseOutcome]:
    """since: an era -> the fate from there on"""

    def play(era: str) -> RecordFate | None:
        return [since[one] for one in ERAS[: ERAS.index(era) + 1] if one in since][-1]

    return outcomes_by_release(own, play)


def scenario(profile: str, protocol: str = "{}") -> Scenario:
    text = f"schema: 1\nid: x\ntitle: x\nduration: 1s\nprofile: {profile}\nprotocol: {protocol}\n"
    return load_text(
        f"{text}cluster: {{brokers: {{b1: {{}}}}}}\ntopics: {{}}\nworkloads: {{}}\ntimeline: []\n", "x"
    ).scenario


@pytest.mark.parametrize("own", ERAS)
def test_if_the_ends_lose_the_record_as_well_no_others_are_played(own: str) -> None:
    found = outcomes(own, {"kafka-0.8": fate("lost")})
    assert list(found) == sorted({ERAS[0], own, ERAS[-1]}, key=ERAS.index)
    (row,) = release_rows(found)
    assert row["played"] == [era.removeprefix("kafka-") for era in found]
    assert (row["outcome"], row["saved"]) == ("acked, but lost", False)


@pytest.mark.parametrize("changed", ERAS[1:])
@pytest.mark.parametrize("own", ["kafka-0.8", "kafka-3.9", "kafka-4.4"])
def test_a_change_is_between_neighbours(own: str, changed: str) -> None:
    found = outcomes(own, {"kafka-0.8": fate("lost"), changed: fate("kept")})
    assert {changed, ERAS[ERAS.index(changed) - 1]} <= set(found)
    assert [one.saved for one in found.values()] == [ERAS.index(era) >= ERAS.index(changed) for era in found]
    assert [row["outcome"] for row in release_rows(found)] == ["acked, but lost", "acked and kept"]
    assert len(found) <= 7 or found[own].saved


def test_if_its_own_release_saves_it_every_release_is_played() -> None:
    found = outcomes("kafka-4.1", {"kafka-0.8": fate("kept"), "kafka-0.11": fate("lost"), "kafka-4.1": fate("kept")})
    assert list(found) == ERAS and len(release_rows(found)) == 3
    assert saving_rules(found, scenario("kafka-4.1", "{elr: false}")) == {"elr": True}


def test_releases_that_cannot_play_it_have_no_row() -> None:
    found = outcomes("kafka-4.1", {"kafka-0.8": None, "kafka-3.9": fate("lost")})
    assert [row["played"] for row in release_rows(found)] == [["3.9", "4.1", "4.4"]]
    assert found["kafka-0.8"].outcome == found["kafka-3.5"].outcome == NOT_PLAYABLE


def test_a_record_kept_at_the_price_of_others_is_another_outcome() -> None:
    found = outcomes(
        "kafka-3.9", {"kafka-0.8": fate("kept", ("r2",)), "kafka-2.0": fate("kept"), "kafka-2.1": fate("lost")}
    )
    assert [row["outcome"] for row in release_rows(found)] == [
        "acked and kept; other records are lost",
        "acked and kept",
        "acked, but lost",
    ]


def test_the_rules_of_the_nearest_release_that_saves_it() -> None:
    both = {"kafka-0.8": fate("kept"), "kafka-0.11": fate("lost"), "kafka-4.1": fate("kept")}
    newer = saving_rules(outcomes("kafka-3.9", both), scenario("kafka-3.9"))
    assert newer == PROFILES["kafka-4.1"].unlike(PROFILES["kafka-3.9"])
    older = saving_rules(
        outcomes("kafka-2.0", {"kafka-0.8": fate("kept"), "kafka-0.11": fate("lost")}), scenario("kafka-2.0")
    )
    assert older == PROFILES["kafka-0.10"].unlike(PROFILES["kafka-0.11"])
    assert saving_rules(outcomes("kafka-2.0", {"kafka-0.8": fate("lost")}), scenario("kafka-2.0")) == {}

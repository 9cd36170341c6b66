"""A run of several partitions on the screen: each line names its partitions, and equal ones are together."""

from __future__ import annotations

import re

from small_scenario import HEAD, load

from replica.trace import events as trace
from replica.trace.alike import partition_of
from scenarios.cli.screens import run_screen
from scenarios.observe.story import Story, StoryLine, grouped
from scenarios.observe.view import ClusterView
from scenarios.run.runner import run_scenario
from scenarios.terminal.style import Style

SIX = HEAD.replace("t: {partitions: {0: [b1, b2, b3]}", "t: {partitions: 6, replication_factor: 3").replace(
    "60s", "40s"
)


def test_one_fenced_broker_and_its_elections_are_one_line() -> None:
    result = run_scenario(load("{at: 10.5s, kill: b1}", "{at: 30s, start: b1}", head=SIX), runs_dir=None)
    story = result.story
    elections = [group for group in grouped(story) if group.first.sign == "elected"]
    assert len(elections) == 1
    led_by_b1 = sorted(elections[0].partitions)
    assert len(led_by_b1) == 2
    told = [line for line in run_screen(result.summary, story, Style(width=80)).splitlines() if "♛ " in line]
    assert told[0].split("♛ ")[1].startswith(f"b2 was elected leader of {led_by_b1[0]}, {led_by_b1[1]} in epoch 1")
    back = [group.text for group in grouped(story) if group.text.startswith("each leader proposed to expand the ISR")]
    assert len(back) == 1 and back[0].startswith("each leader proposed to expand the ISR of t-0..t-5 to {")
    assert "3 of 6 partitions are not drawn" in run_screen(result.summary, story, Style())
    unfolded = run_screen(result.summary, story, Style(width=400), verbose=True)
    assert "each leader" not in unfolded and all(line.text in unfolded for line in story.lines)
    every = [partition_of(line.event) for line in story.lines if line.event]
    in_groups = [partition for group in grouped(story) for partition in group.partitions]
    assert sorted(filter(None, every)) == sorted(in_groups)


def test_who_leads_is_told_where_brokers_and_topics_are_numbers() -> None:
    head = re.sub(r"\bb([123])\b", r'"\1"', HEAD).replace("topic: t}", 'topic: "2024"}')
    head = head.replace('t: {partitions: {0: ["1", "2", "3"]}', '"2024": {partitions: {0: ["1", 2, 3], 1: [1, 3, 2]}')
    story = run_scenario(load('{at: 10.5s, kill: "1"}', head=head.replace("60s", "30s")), runs_dir=None).story
    elections = [group for group in grouped(story) if group.first.sign == "elected"]
    assert sorted(group.text.partition(" in ")[0] for group in elections) == [
        "2 was elected leader of 2024-0",
        "3 was elected leader of 2024-1",
    ]


def story_of(*lines: StoryLine) -> Story:
    story = Story(ClusterView(()))
    story.lines = list(lines)
    return story


def test_the_same_event_with_another_sign_is_a_line_of_its_own() -> None:
    events = [trace.TopicDeleted(node="c1", topic=topic) for topic in "tt"]
    lines = [StoryLine(7, sign, event.sentence(), event) for sign, event in zip(("down", "up"), events, strict=True)]
    assert [(group.first.sign, group.is_merged) for group in grouped(story_of(*lines))] == [
        ("down", False), ("up", False)
    ]  # fmt: skip


def test_lines_that_are_one_are_hinted_at_and_words_of_the_story_stay_as_they_are() -> None:
    events = [trace.BatchCorrupted("b1", "t", number, offset=5, last_offset=6) for number in range(2)]
    again = [StoryLine(7, "lost", event.sentence(), event) for event in events]
    own = StoryLine(7, "note", "it ends")
    groups = grouped(story_of(again[0], own, again[1], own))
    assert [(group.text.partition(" changed")[0], group.is_merged) for group in groups] == [
        ("one bit of a batch of t-0..t-1", True), ("it ends", False), ("it ends", False)
    ]  # fmt: skip

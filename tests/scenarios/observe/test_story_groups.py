"""A run of several partitions on the screen: each line names its partitions, and equal ones are together."""

from __future__ import annotations

import re

from small_scenario import HEAD, load

from replica.ids import TopicPartition
from scenarios.cli.screens import run_screen
from scenarios.observe.story import Story, StoryLine, grouped, ungrouped
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
    told = [line for line in run_screen(result.summary, story, Style(width=80)).splitlines() if "first live" in line]
    assert told[0].split("♛ ")[1].startswith(f"{led_by_b1[0]}, {led_by_b1[1]}: ")
    back = [group.text(names_partitions=True) for group in grouped(story) if "wants b1 in" in group.said]
    assert len(back) == 1 and back[0].startswith("t-0..t-5: ISR {b2, b3, b1}: each leader wants b1 in the ISR: b1 ")
    assert "3 of the 6 partitions are not drawn" in run_screen(result.summary, story, Style())
    unfolded = run_screen(result.summary, story, Style(), verbose=True)
    assert "each leader wants b1" not in unfolded and len(ungrouped(story)) == len(story.lines)
    every = [partition for line in story.partitions_of_lines for partition in line]
    in_groups = [partition for group in grouped(story) for partition in group.partitions]
    assert sorted(every) == sorted(in_groups)


def test_who_leads_is_told_where_brokers_and_topics_are_numbers() -> None:
    head = re.sub(r"\bb([123])\b", r'"\1"', HEAD).replace("topic: t}", 'topic: "2024"}')
    head = head.replace('t: {partitions: {0: ["1", "2", "3"]}', '"2024": {partitions: {0: ["1", 2, 3], 1: [1, 3, 2]}')
    story = run_scenario(load('{at: 10.5s, kill: "1"}', head=head.replace("60s", "30s")), runs_dir=None).story
    elections = [group for group in grouped(story) if group.first.sign == "elected"]
    led = [(str(partition), group.said[:32]) for group in elections for partition in group.partitions]
    assert sorted(led) == [
        ("2024-0", "2 is the first live member of th"),
        ("2024-1", "3 is the first live member of th"),
    ]


def story_of(*lines: StoryLine, partitions: list[list[TopicPartition]]) -> Story:
    story = Story(ClusterView(()))
    story.lines, story.partitions_of_lines = list(lines), partitions
    return story


def test_the_same_words_with_another_sign_are_a_line_of_their_own() -> None:
    lines = [StoryLine(7, "elected", "b1 is next"), StoryLine(7, "offline", "b1 is next")]
    story = story_of(*lines, partitions=[[TopicPartition("t", number)] for number in range(2)])
    assert [group.first.sign for group in grouped(story)] == ["elected", "offline"]


def test_lines_that_are_one_are_hinted_at_whether_their_words_differ_or_not() -> None:
    again, once = StoryLine(7, "down", "b1 died"), StoryLine(7, "note", "it ends")
    groups = grouped(story_of(again, once, again, partitions=[[], [], []]))
    assert [(group.said, group.is_merged) for group in groups] == [("b1 died", True), ("it ends", False)]
    of_two = [TopicPartition("t", 0), TopicPartition("t", 1)]
    assert [group.is_merged for group in grouped(story_of(once, partitions=[of_two]))] == [False]

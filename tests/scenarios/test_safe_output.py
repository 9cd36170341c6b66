"""No client makes a terminal do anything."""

from __future__ import annotations

import io

from replica.ids import TopicPartition
from scenarios.safe_output import SafeOutput
from scenarios.style import Style


def test_control_characters_of_others_are_spelt_out_and_our_own_colours_are_not() -> None:
    stream = io.StringIO()
    output = SafeOutput(stream)
    coloured = Style(colour=True).paint("lost", "red")
    output.write(f"{coloured}\t\x1b[2J\x1b]0;title\x07\x00\x9b1m\u0085ü\n\r\x1b[K")
    assert stream.getvalue() == f"{coloured}\t\\x1b[2J\\x1b]0;title\\x07\\x00\\x9b1m\\x85ü\n\r\x1b[K"
    assert output.encoding == stream.encoding


def test_a_partition_of_a_topic_that_cannot_exist_is_named_in_printable_and_few_characters() -> None:
    assert str(TopicPartition("orders", 3)) == "orders-3"
    assert str(TopicPartition("\x1b[2J", 0)) == "\\x1b[2J-0"
    assert len(str(TopicPartition("x" * 30_000, 0))) < 120

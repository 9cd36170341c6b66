"""The one printer of columns."""

from __future__ import annotations

from scenarios.terminal.style import pair_lines, table_lines


def test_cells_of_several_lines_and_texts_between_rows() -> None:
    assert table_lines([("a", "one\ntwo", "1"), "between", ("bcd", "x", "10")], right=[2]) == [
        "  a    one   1",
        "       two",
        "between",
        "  bcd  x    10",
    ]


def test_a_cell_beyond_the_greatest_width_moves_its_own_line_only() -> None:
    assert table_lines([("a" * 9, "1"), ("b", "2")], widest=4) == ["  aaaaaaaaa  1", "  b     2"]


def test_a_colour_takes_no_room() -> None:
    assert table_lines([("\x1b[31mred\x1b[0m", "1"), ("blue", "2")])[1] == "  blue  2"


def test_no_rows_are_no_lines() -> None:
    assert table_lines([]) == []


def test_a_pair_leaves_out_what_is_empty_and_goes_below_a_long_name() -> None:
    assert pair_lines(("a", "bcd"), ("x", "y"), 40) == ["  a    x", "  bcd  y"]
    assert pair_lines(("a", "bcd"), ("", "y"), 40) == ["  bcd  y"]
    assert pair_lines(("n" * 30, "b"), ("some words", ""), 40) == [f"  {'n' * 30}", "      some words"]

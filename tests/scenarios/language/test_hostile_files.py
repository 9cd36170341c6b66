"""Files that are no scenario, or none that can be read, stay one clear error."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_scenario import HEAD, PLAIN_EXPECT, caret_text, errors_of, file_of

from scenarios.language.diagnostics import (
    ScenarioInvalid,
    format_github,
    format_text,
    render,
)
from scenarios.language.parse.loading import check_file, load_file, load_text

GOLDEN = Path(__file__).parents[2] / "golden" / "diagnostics"


def one_error(path: Path) -> str:
    """The only diagnostic of a file, as its code; no traceback, nothing left behind."""
    before = sorted(path.parent.rglob("*"))
    (found,) = check_file(path)
    assert sorted(path.parent.rglob("*")) == before
    render(found)
    return found.code


def test_a_file_of_100_mb_is_refused_by_its_size(tmp_path: Path) -> None:
    path = tmp_path / "big.yaml"
    with path.open("wb") as stream:
        stream.truncate(100 << 20)  # sparse: the size is judged, not a byte is read
    assert one_error(path) == "E102"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\n", "E108"),
        ("[" * 10_000, "E102"),
        ("{a: " * 10_000, "E102"),
        ("- " * 10_000, "E102"),
        ("x: [" + "a, " * 60_000 + "a]", "E102"),
        ("x: " + "y" * 500_000, "E102"),
        ("<<: {a: b}\nschema: 1", "E104"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {}\n", "E111"),
        ("version: '3'\nservices: {kafka: {image: x}}\nvolumes: {}\n", "E111"),
        ("# Lab 1\nanswers:\n  lost: r1\n", "E111"),
        ("- a\n- b\n", "E111"),
        ("", "E111"),
        ("just words", "E111"),
        ("? [a]\n: b", "E111"),
        ("schema: 1\n---\nschema: 1\n", "E103"),
        ("schema: [1", "E103"),
        ("schema: 'x", "E103"),
        ("schema: 1\ncluster:\n\tbrokers: {}\n", "E106"),
        ("schema: \x00", "E103"),
        ("schema: *nowhere", "E108"),
        ("!!binary aGk=", "E109"),
    ],
)
def test_text_that_is_no_scenario(text: str, code: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    found = check_file(path)
    assert found[0].code == code
    assert len(found) == 1 or code != "E111"
    assert all(render(diagnostic) for diagnostic in found)


def test_what_is_no_plain_readable_text_file(tmp_path: Path) -> None:
    latin = tmp_path / "latin.yaml"
    latin.write_bytes(b"title: caf\xe9\n")
    assert one_error(latin) == "E101"
    assert one_error(tmp_path / "missing.yaml") == "E101"
    assert check_file(tmp_path)[0].code == "E101"
    assert check_file("nul\x00byte.yaml")[0].code == "E101"


def test_carriage_returns_do_not_move_the_caret() -> None:
    errors = errors_of(file_of("{at: 1s, kill: b9}").replace("\n", "\r\n"))
    assert [(error.where, caret_text(error)) for error in errors] == [("test.yaml:14:20", "b9")]


@given(st.text(alphabet=st.sampled_from("ab:{}[]-,'\"#&*!?|>%@` \n\t01.~\\"), max_size=80))
def test_no_text_breaks_the_loader(text: str) -> None:
    """Either a scenario or diagnostics that can be printed; never another exception."""
    for whole in (text, HEAD + text, file_of() + text, HEAD + f"timeline: {text}\n" + PLAIN_EXPECT):
        try:
            load_text(whole, "fuzz.yaml")
        except ScenarioInvalid as invalid:
            assert invalid.diagnostics
            screen = format_text(invalid.file, invalid.diagnostics)
            assert "\x1b" not in screen
            assert all(len(line) <= 80 for line in screen.splitlines() if "|" in line[:8])
            format_github(invalid.diagnostics)


def test_the_golden_files_are_the_only_ones_that_do_not_load() -> None:
    with pytest.raises(ScenarioInvalid, match=r"Found \d+ errors .*Nothing was run\."):
        load_file(GOLDEN / "hostile.yaml")

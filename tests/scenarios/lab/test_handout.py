"""The handout in a real browser: one page on each paper, and nothing beside the paper."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import pytest

from tests.browser import needs_chromium
from tests.driven import chromium

HANDOUT = Path(str(files("scenarios.lab"))) / "handout.html"
PAPERS_MM = {"A4": (210, 297), "Letter": (216, 279)}


@pytest.mark.soak
@needs_chromium
def test_it_is_one_page_of_either_paper() -> None:
    with chromium() as browser:
        page = browser.new_page()
        page.goto(HANDOUT.as_uri())
        pages = {paper: len(re.findall(rb"/Type\s*/Page\b", page.pdf(format=paper))) for paper in PAPERS_MM}
        assert pages == {"A4": 1, "Letter": 1}
        page.emulate_media(media="print")
        box = page.evaluate("document.body.getBoundingClientRect().toJSON()")
        width, height = (box[side] * 25.4 / 96 for side in ("width", "height"))
        assert all(width <= paper[0] - 24 and height <= paper[1] - 24 for paper in PAPERS_MM.values())


def test_the_picture_says_what_is_true_of_it() -> None:
    """HW is at the smallest LEO in the ISR; clients are at the leader's row; the answers follow from the rows."""
    text = HANDOUT.read_text("utf-8")
    rows: dict[str, list[int]] = {}
    tops: dict[str, int] = {}
    for part in text.split('<text class="name"')[1:]:
        (broker,) = re.findall(r">(b\d)</text>", part)
        part = part.partition('<path class="leo"')[0]
        rows[broker] = [int(number) for number in re.findall(r'<text class="cell" [^>]*>(\d)</text>', part)]
        tops[broker] = int(re.findall(r'<rect class="\w+" x="190" y="(\d+)"', part)[0])
    leos = {broker: (int(x), int(leo)) for (x, leo), broker in zip(LEO.findall(text), rows, strict=True)}
    assert {broker: leo for broker, (_, leo) in leos.items()} == {broker: len(names) for broker, names in rows.items()}
    ((hw_x, hw_from, hw_to, hw),) = re.findall(r'<path class="hw" d="M(\d+) (\d+)V(\d+)"/><text [^>]*>HW (\d+)', text)
    x, leo = min(leos[broker] for broker in ("b1", "b2"))
    assert (int(hw_x), int(hw)) == (x, leo)
    assert int(hw_from) < tops["b1"] and tops["b2"] + 40 <= int(hw_to) < tops["b3"]
    arrows = [int(y) for y in re.findall(r'<path class="arrow" d="M\d+ (\d+)H\d+"', text)]
    assert len(arrows) == 2 and all(tops["b1"] <= y <= tops["b1"] + 40 for y in arrows)
    lost = [name for name in rows["b1"] if name not in rows["b2"]]
    assert f"reads 0 to {leo - 1}" in text and f"{lost[0]} and {lost[1]} not yet" in text
    (answers,) = re.findall(r'<p class="answers">(.*)</p>', text)
    assert f"0 to {leo - 1}." in answers and f"those of {lost[0]} and {lost[1]}." in answers


LEO = re.compile(r'<path class="leo" d="M(\d+) \d+V\d+"/><text class="leo" [^>]*>LEO (\d+)</text>')

"""Makes a page self-contained: its style, its scripts and its charts' data stand inside the one file."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2

from replica.trace.signs import BROKER_MARKS
from spark_reports.report import standstill, words


@functools.cache
def environment() -> jinja2.Environment:
    """One for all pages of this process: it keeps the templates that it has compiled."""
    made = jinja2.Environment(
        loader=jinja2.FunctionLoader(resource), autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    made.filters.update(
        seconds=words.seconds,
        short_time=words.short_time,
        clock=words.clock,
        size=words.size,
        rate=words.rate,
        held=standstill.why_held,
        acks=words.acks_name,
        joined=words.joined,
        reader=words.reader,
        ranges=words.name_ranges,
        in_pieces=words.in_pieces,
    )
    return made


def resource(name: str) -> str:
    return files("spark_reports.report").joinpath(name).read_text(encoding="utf-8")


def page_style() -> str:
    """The style sheet of every page, with the brokers' colours as variables: of its pictures, too."""
    light, dark = (
        " ".join(f"--b{place}: {colour};" for place, colour in enumerate(colours))
        for colours in zip(*((mark.light, mark.dark) for mark in BROKER_MARKS), strict=True)
    )
    in_the_dark = f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}"
    return f":root {{ {light} }}\n{in_the_dark}\n{resource('style.css')}"


@functools.cache
def vega_script() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script without a module system; about 0.9 MB, two seconds to make."""

    def bundle() -> str:
        import vl_convert

        return str(vl_convert.javascript_bundle(_GLOBALS))

    return _inside_script(kept(f"vega of vl-convert {version('vl-convert-python')}, {_GLOBALS}", bundle))


_GLOBALS = "window.vegaEmbed = vegaEmbed;"
"""The parts of the bundle that the page's own script uses."""


def _inside_script(text: str) -> str:
    # The HTML parser ends a script at this sequence, wherever it stands.
    return text.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def chart_in_html(spec: Mapping[str, Any], description: str) -> str:
    """A Vega-Lite specification with its data in `datasets`, as page.js reads it from the page: data as columns.

    description: a screen reader's text for the chart
    """
    datasets = {name: packed(points) for name, points in spec["datasets"].items()}
    chart = {**spec, "description": description, "datasets": datasets}
    written = json.dumps(chart, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    # The HTML parser ends a script at `</script`, also inside of a string.
    return written.replace("<", "\\u003c")


# ----------------------------------------------------------------------------------------------------------------- kept
#
# Texts that take long to make and are always the same, kept in the user's cache.


def cache_folder() -> Path:
    """Of all that Highwater keeps for the user. raises: RuntimeError if the user has no home"""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "highwater"


def kept(name: str, make: Callable[[], str]) -> str:
    """The text kept under this name, or else made and kept; a damaged one is made again.

    A cache that cannot be read or written only costs time.
    name: states all that the text depends on
    """
    name = _digest(name.encode()).decode()
    with contextlib.suppress(OSError, RuntimeError):
        digest, _, stored = (cache_folder() / name).read_bytes().partition(b"\n")
        if digest == _digest(stored):
            return stored.decode()
    text = make()
    with contextlib.suppress(OSError, RuntimeError):
        _keep(cache_folder() / name, text.encode())
    return text


def _digest(text: bytes) -> bytes:
    return hashlib.sha256(text).hexdigest().encode()


def _keep(file: Path, text: bytes) -> None:
    """Whole or not at all, for other processes may be reading it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=file.parent) as scratch:
        written = Path(scratch) / file.name
        written.write_bytes(_digest(text) + b"\n" + text)
        written.replace(file)


# -------------------------------------------------------------------------------------------------------------- packing
#
# Charts' data as columns, each word once: a third of the room of one object per point. page.js unpacks it.


def packed(points: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Points with the same keys -> their columns: a list of values, or of words {"of": words, "at": places in it}.

    raises: ValueError if a point has other keys than the first
    """
    if any(point.keys() != points[0].keys() for point in points):
        raise ValueError("the points of one dataset have different keys")
    return {name: _column([point[name] for point in points]) for name in points[0]} if points else {}


def _column(values: list[Any]) -> Any:
    if not all(isinstance(value, str) for value in values):
        return values
    place = {word: number for number, word in enumerate(dict.fromkeys(values))}
    return {"of": list(place), "at": [place[value] for value in values]}

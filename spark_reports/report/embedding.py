"""Make HTML pages self-contained: style, scripts and chart data are embedded in the file."""

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
    """Return the Jinja environment for all pages; it is created once and caches compiled templates."""
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
    """Return the style sheet for pages and their pictures, with the brokers' colours as CSS variables."""
    light, dark = (
        " ".join(f"--b{mark_number}: {colour};" for mark_number, colour in enumerate(colours))
        for colours in zip(*((mark.light, mark.dark) for mark in BROKER_MARKS), strict=True)
    )
    in_the_dark = f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}"
    return f":root {{ {light} }}\n{in_the_dark}\n{resource('style.css')}"


@functools.cache
def vega_script() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script of about 0.9 MB. Bundling takes two seconds once."""

    def bundle() -> str:
        import vl_convert

        return str(vl_convert.javascript_bundle(_GLOBALS))

    return _inside_script(kept(f"vega of vl-convert {version('vl-convert-python')}, {_GLOBALS}", bundle))


_GLOBALS = "window.vegaEmbed = vegaEmbed;"
"""JavaScript that makes vegaEmbed global for the page's script."""


def _inside_script(text: str) -> str:
    # An HTML parser ends a script at this sequence, wherever it occurs.
    return text.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def chart_in_html(spec: Mapping[str, Any], description: str) -> str:
    """Return a Vega-Lite specification as JSON that is safe in HTML, with packed `datasets` for page.js.

    `description` is the chart's text for screen readers.
    """
    datasets = {name: packed(points) for name, points in spec["datasets"].items()}
    chart = {**spec, "description": description, "datasets": datasets}
    written = json.dumps(chart, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    # An HTML parser ends a script at `</script`, even inside a string.
    return written.replace("<", "\\u003c")


# ----------------------------------------------------------------------------------------------------------------- kept
#
# A cache in the user's cache directory for texts that take long to make. The name of a text determines its content.


def cache_folder() -> Path:
    """Return the cache directory of Highwater. Raises RuntimeError if the user has no home directory."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "highwater"


def kept(name: str, make: Callable[[], str]) -> str:
    """Return the cached text of this name; if there is none, call `make` and cache its result.

    A damaged entry is replaced. If the cache cannot be read or written, the text is made each time. `name` must include
    everything that the text depends on.
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
    """Write a cache file atomically, since other processes may read it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=file.parent) as scratch:
        written = Path(scratch) / file.name
        written.write_bytes(_digest(text) + b"\n" + text)
        written.replace(file)


# -------------------------------------------------------------------------------------------------------------- packing
#
# The charts' data as columns, with each distinct string once. This takes a third of the space of one object per point.
# page.js unpacks the columns.


def packed(points: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return points as columns: a list of values, or for strings {"of": distinct strings, "at": index of each value}.

    Raises ValueError if the points have different keys.
    """
    if any(point.keys() != points[0].keys() for point in points):
        raise ValueError("the points of one dataset have different keys")
    return {name: _column([point[name] for point in points]) for name in points[0]} if points else {}


def _column(values: list[Any]) -> Any:
    if not all(isinstance(value, str) for value in values):
        return values
    numbers = {word: number for number, word in enumerate(dict.fromkeys(values))}
    return {"of": list(numbers), "at": [numbers[value] for value in values]}

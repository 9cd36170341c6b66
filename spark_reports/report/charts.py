"""Make the charts of one partition as a Vega-Lite specification: panels over one time axis, faults as shaded areas.

The page sets the parameters FROM and UNTIL (the time range that all panels show), AT (the selected time), and
WORD_SHARE (the share of a panel's width that a word takes).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import altair as alt
from altair.utils import schemapi

from replica.trace.signs import BROKER_MARKS, SIGNS
from spark_reports.report import series
from spark_reports.report.rows import Rows
from spark_reports.report.series import Points

Spec = dict[str, Any]

# Variables of the style sheet. Every broker also has a dash pattern, and every ISR state a height and a word.
WATER, LEADER, IN_SYNC, OUT_OF_SYNC = "var(--water)", "var(--leader)", "var(--in-sync)", "var(--out-of-sync)"
FAULT, ELECTION, PAGE = "var(--fault)", "var(--election)", "var(--page)"

FROM, UNTIL, AT, WORD_SHARE = "from_s", "until_s", "at_s", "word_share"

_SHOWN = alt.Scale(domain=[alt.ExprRef(FROM), alt.ExprRef(UNTIL)], nice=False)

WIDTH_PX = 1000
"""Nominal width of a chart. The page sets the real width before it draws the chart."""
_LABELS_PX = (44, 110)
"""Bounds of the width of the y axes' labels; the actual width depends on the longest broker name."""

_WORD_PX, _WORD_CHARACTERS = 80, 10
"""Width and length of a word that takes WORD_SHARE of a panel. page.js computes WORD_SHARE."""

_WIDTHS_PX = (2.2, 5.0)
"""Line widths: of the line drawn last, on top of the others, and of the line drawn first."""

_BARE: dict[str, Any] = {"ticks": False, "domain": False, "grid": False}
_FAULT_TOLD = {"lane": "fault", "when": "when", "reason": "reason"}


class Heights(NamedTuple):
    """The largest value in each kind of panel of one partition, to give all runs of a page the same scales."""

    offset: int
    uncommitted_records: int
    lag_records: int
    lag_s: float
    at_risk_records: int

    @staticmethod
    def of(tables: Mapping[str, Rows]) -> Heights:
        """Return the largest values over all runs of a page.

        Args:
            tables: result tables by name, each with the rows of one partition.
        """

        def largest(name: str, *columns: str) -> int:
            return max((value or 0 for column in columns for value in tables[name].values(column)), default=0)

        return Heights(
            offset=largest("replica_timeline", "log_end_offset", "high_watermark"),
            uncommitted_records=largest("replica_timeline", "uncommitted_records"),
            lag_records=largest("replication_lag", "lag_records"),
            lag_s=series.to_s(largest("replication_lag", "lag_us", "peak_lag_us")),
            at_risk_records=largest("data_at_risk", "at_risk_records"),
        )


def partition_chart(
    tables: Mapping[str, Rows], replicas: Sequence[str], mark_indexes: Mapping[str, int], end_us: int, heights: Heights
) -> Spec:
    """Return the charts of one partition as a Vega-Lite specification that includes its data.

    Args:
        tables: result tables by name, each with the partition's rows.
        replicas: brokers that have a panel.
        mark_indexes: index of each broker's mark in BROKER_MARKS.
        end_us: end of the run.
        heights: largest value of each axis.
    """
    # In debug mode Altair checks each part against Vega-Lite's schema, a third of a page's time. A test does that.
    with schemapi.debug_mode(False):
        return _PartitionChart(tables, replicas, mark_indexes, end_us, heights).build()


# Altair's chained calls have no types; drawing the chart checks the result.
Layer = Any


def _room(share: str) -> alt.ExprRef:
    """Return an expression for the width in pixels of a share of a panel, minus the space between mark and words."""
    return alt.ExprRef(f"({share}) * {_WORD_PX} / {WORD_SHARE} - 8")


def _has_x(layer: Layer) -> bool:
    return layer.encoding is not alt.Undefined and layer.encoding.x is not alt.Undefined


class _PartitionChart:
    def __init__(
        self,
        tables: Mapping[str, Rows],
        replicas: Sequence[str],
        mark_indexes: Mapping[str, int],
        end_us: int,
        heights: Heights,
    ) -> None:
        self.heights = heights
        self.replicas = list(replicas)
        self.mark_indexes = [mark_indexes[node] for node in replicas]
        self.end_us = end_us
        least_px, most_px = _LABELS_PX
        self._labels_px = min(most_px, max(least_px, 9 * max(map(len, self.replicas)) + 8))
        self._plain_y: dict[str, Any] = {"title": None, "minExtent": self._labels_px, "maxExtent": self._labels_px}
        self._datasets: dict[str, Points] = {}
        self._pointers: list[str] = []
        self.timeline = tables["replica_timeline"]
        self.lost = tables["lost_records"]
        self.faults = series.fault_stretches(tables["fault_intervals"], end_us)
        self.shade = series.together([fault for fault in self.faults if fault["undone"]])
        self.elections = series.election_moments(tables["elections"])
        self.lines = [
            # Use numbers, because Vega rejects some names in an expression, such as `constructor`.
            {**line, "replica": self._place(line["node"])}
            for line in series.replica_lines(self.timeline, end_us)
        ]
        self.lags = sorted(series.lag_lines(tables["replication_lag"]), key=lambda line: self._place(line["node"]))
        self.risk = series.risk_lines(tables["data_at_risk"])
        self.standings = series.standing_stretches(tables["isr_intervals"])
        self.frozen = series.frozen_stretches(tables["fault_intervals"], replicas)
        self.down = series.down_stretches(tables["stopped_intervals"], replicas) + self.frozen
        self.instants = series.instants(self.lines, self.lags, self.standings, self.replicas)
        self.hover = alt.selection_point(
            name="hover", on="pointermove", clear="pointerout", nearest=True, fields=["s"], encodings=["x"], empty=False
        )

    def _place(self, node: str) -> int:
        return self.replicas.index(node) if node in self.replicas else -1

    def build(self) -> Spec:
        """Return the Vega-Lite specification.

        Altair makes the layers. They are combined here because Altair would copy them and their data several times.
        """
        panels = [*([self._fault_lanes()] if self.faults else []), self._ribbon()]
        panels += [self._replica(node) for node in self.replicas]
        most = self.heights
        title = "Uncommitted records: log end offset minus high watermark"
        panels.append(self._measure(title, self.lines, "gap", most.uncommitted_records))
        if self.lags:
            title = "Replication lag: records that the follower lacks"
            panels.append(self._measure(title, self.lags, "records", most.lag_records))
            title = "Replication lag: age of the oldest record that the follower lacks, in seconds"
            panels.append(self._measure(title, self.lags, "seconds", most.lag_s))
        # This panel is last, because only some of the runs that are side by side may have it.
        if self.risk:
            title = "At risk: acknowledged records above the leader's high watermark, lost if the leader died"
            panels.append(self._measure(title, self.risk, "records", most.at_risk_records))
        shown = {FROM: 0, UNTIL: series.to_s(self.end_us), AT: -1, WORD_SHARE: 1 / 12}
        selection: Layer = self.hover.param
        hover = {**selection.to_dict(validate=False), "views": self._pointers}
        return {
            "$schema": alt.SCHEMA_URL,
            "vconcat": panels,
            "spacing": 12,
            "resolve": {"scale": {"color": "shared", "strokeDash": "shared", "strokeWidth": "independent"}},
            "params": [hover, *({"name": name, "value": value} for name, value in shown.items())],
            "datasets": self._datasets,
            "usermeta": {
                "instants": self._name_of(self.instants),
                "replicas": self.replicas,
                "labels_px": self._labels_px,
            },
        }

    def _chart(self, points: Points, **own: Any) -> Layer:
        return alt.Chart(alt.NamedData(name=self._name_of(points)), **own)

    def _name_of(self, points: Points) -> str:
        name = next((name for name, known in self._datasets.items() if known == points), f"data-{len(self._datasets)}")
        self._datasets[name] = points
        return name

    # ---------------------------------------------------------------------------------------------- parts of panels

    def _x(self, labels: bool) -> alt.X:
        axis = alt.Axis(labels=labels, ticks=labels, title=None, labelExpr="datum.label + ' s'", tickCount=10)
        return alt.X("s:Q", axis=axis, scale=_SHOWN)

    def _y(self, field: str, largest: float) -> alt.Y:
        """Return a y axis with a margin below 0 and above the largest value, to show all lines and marks completely."""
        whole = field != "seconds"
        # Vega would put a tick at half a record.
        ticks: dict[str, Any] = {"values": list(range(max(2, int(largest) + 1)))} if whole and largest < 4 else {}
        axis = alt.Axis(tickCount=3, format="~s" if whole else "~f", **ticks, **self._plain_y)
        most = largest * 1.12 or 1
        return alt.Y(f"{field}:Q", axis=axis, stack=None, scale=alt.Scale(domain=[-0.1 * most, most], nice=False))

    def _colour(self) -> alt.Color:
        colours = [f"var(--b{mark})" for mark in self.mark_indexes]
        return alt.Color("node:N", scale=alt.Scale(domain=self.replicas, range=colours), legend=None)

    def _dash(self) -> alt.StrokeDash:
        dashes = [list(BROKER_MARKS[mark].dash or (1, 0)) for mark in self.mark_indexes]
        return alt.StrokeDash("node:N", scale=alt.Scale(domain=self.replicas, range=dashes), legend=None)

    def _width(self, points: Points) -> Any:
        """Return line widths that fall from the first line to the last: where lines coincide, all stay visible."""
        nodes = [node for node in self.replicas if any(point["node"] == node for point in points)]
        last, first = _WIDTHS_PX
        if len(nodes) < 2:
            return alt.StrokeWidthValue(last)
        widths = [first + (last - first) * index / (len(nodes) - 1) for index in range(len(nodes))]
        return alt.StrokeWidth("node:O", scale=alt.Scale(domain=nodes, range=widths), legend=None)

    def _span(self) -> Layer:
        """Return an invisible layer that gives even an empty panel its time axis."""
        return self._chart([{"s": 0}, {"s": series.to_s(self.end_us)}]).mark_rule(opacity=0, clip=True)

    def _behind(self) -> list[Layer]:
        layers = [self._span()]
        if self.shade:
            layers.append(
                self._chart(self.shade).mark_rect(color=FAULT, opacity=0.12, clip=True).encode(x2=alt.X2("until:Q"))
            )
        if self.faults:
            layers.append(self._chart(self.faults).mark_rule(color=FAULT, strokeDash=[3, 3], clip=True))
        if self.elections:
            layers.append(self._chart(self.elections).mark_rule(color=ELECTION, strokeWidth=2.5, clip=True))
        return layers

    def _line(self) -> Layer:
        """Return a layer with a vertical line at the time selected by pointer or keyboard."""
        # These are Altair's classes, since `alt.condition` with a plain value compares schemas, which is slow.
        asked = alt.ExprRef(f"datum.s === {AT} ? 0.8 : 0")
        shown = alt.OpacityValue(asked, condition={"param": self.hover.name, "value": 0.8, "empty": False})
        return self._chart(self.instants).mark_rule(strokeWidth=1.5, clip=True, tooltip=None).encode(opacity=shown)

    def _pointer(self) -> Layer:
        """Return a layer that follows the pointer, and register a parameter name for it.

        The layer's tooltip shows the state of every replica, whichever panel the pointer is in.
        """
        # With `nearest` the tooltip gets a mark whose datum is the row. Vega-Lite does not consider this for text.
        row = "(datum.datum || datum)"
        parts = [f"'time': format({row}.s, '.3f') + ' s'", f"'ISR': {row}.isr"]
        fields = [json.dumps(series.field_of(node)) for node in self.replicas]
        parts += [f"{field}: {row}[{field}]" for field in fields]
        tooltip = alt.TooltipValue(alt.ExprRef("{" + ", ".join(parts) + "}"))
        self._pointers.append(f"pointer_{len(self._pointers)}")
        return (
            self._chart(self.instants, name=self._pointers[-1]).mark_rule(opacity=0, clip=True).encode(tooltip=tooltip)
        )

    def _panel(
        self, title: str, height: int, *layers: Layer, on_top: Sequence[Layer] = (), labels: bool = True
    ) -> Spec:
        """Return a panel. The layers in `on_top` lie above the pointer's layer and have tooltips of their own."""
        x = self._x(labels)
        stack = (*self._behind(), *layers, self._pointer(), *on_top, self._line())
        placed = [layer if _has_x(layer) else layer.encode(x=x) for layer in stack]
        made = [layer.to_dict(validate=False, context={"top_level": False}) for layer in placed]
        over = {"text": title, "anchor": "start", "frame": "group"}
        return {"layer": made, "title": over, "width": WIDTH_PX, "height": height}

    # ------------------------------------------------------------------------------------------------------- panels

    def _fault_lanes(self) -> Spec:
        lanes = list(dict.fromkeys(fault["lane"] for fault in self.faults))
        y = alt.Y("lane:N", sort=lanes, axis=alt.Axis(labels=False, **_BARE, **self._plain_y))
        tooltip = [alt.Tooltip(f"{field}:N", title=title) for field, title in _FAULT_TOLD.items()]
        data = self._chart(self.faults)
        bars: list[Layer] = []
        # A fault that is never undone is a thin band, since a bar would cover everything after it.
        for undone, style in (
            (True, {"height": 15, "opacity": 0.35}),
            (False, {"height": 3, "yOffset": 8, "opacity": 0.8}),
        ):
            if own := [fault for fault in self.faults if fault["undone"] is undone]:
                bars.append(self._chart(own).mark_bar(color=FAULT, clip=True, **style).encode(x2=alt.X2("until:Q")))
        starts = data.mark_point(shape="triangle-right", color=FAULT, filled=True, opacity=1, size=80, clip=True)
        # Text that would exceed the panel is placed before its fault if there is more room; otherwise it is cut.
        begins = f"(datum.seen_s - {FROM}) / ({UNTIL} - {FROM})"
        is_late = f"{begins} > 0.5 && {begins} + length(datum.lane) * {WORD_SHARE} / {_WORD_CHARACTERS} > 1"
        seen = self._in_view(data)
        words = [
            self._words(seen.transform_filter(f"!({is_late})"), "lane:N", limit=_room(f"1 - {begins}")),
            self._words(seen.transform_filter(is_late), "lane:N", before=True, limit=_room(begins)),
        ]
        layers = [layer.encode(y=y, tooltip=tooltip) for layer in (*bars, starts, *words)]
        return self._panel("Faults", 21 * len(lanes), on_top=layers, labels=False)

    def _ribbon(self) -> Spec:
        names: dict[str, Any] = {"labelFontSize": 14, "labelFontWeight": 600, "labelLimit": self._labels_px - 2}
        axis = alt.Axis(**names, **_BARE, **self._plain_y)
        y = alt.Y("node:N", sort=None, scale=alt.Scale(domain=self.replicas), axis=axis)
        styles: dict[str, dict[str, Any]] = {
            "out of sync": {"height": 4, "yOffset": 10, "color": OUT_OF_SYNC},
            "in sync": {"height": 13, "color": IN_SYNC},
            "leader": {"height": 24, "color": LEADER},
        }
        layers: list[Layer] = []
        for standing, style in styles.items():
            own = [stretch for stretch in self.standings if stretch["standing"] == standing]
            if own:
                layers.append(self._chart(own).mark_bar(clip=True, **style).encode(x2=alt.X2("until:Q")))
        if crowned := [stretch for stretch in self.standings if stretch["word"]]:
            layers.append(self._words(self._in_view(self._chart(crowned)), "fitting:N", color="#1b1300"))
        if self.down:
            frame: dict[str, Any] = {"fillOpacity": 0, "stroke": FAULT, "strokeWidth": 2, "strokeDash": [4, 3]}
            layers.append(self._chart(self.down).mark_bar(height=24, clip=True, **frame).encode(x2=alt.X2("until:Q")))
            down = self._in_view(self._chart(self.down))
            # The word is outlined, since a broker that is down may still be the leader, whose bar has a similar colour.
            outlined: dict[str, Any] = {"color": FAULT, "stroke": PAGE, "strokeWidth": 4}
            layers.append(self._words(down, "fitting:N", x="seen_until:Q", before=True, **outlined))
        tooltip = [alt.Tooltip(f"{field}:N") for field in ("node", "standing", "when", "reason")]
        title = "In-sync replicas · tall ♛: leader · half height: in sync · thin: out of sync · "
        title += f"dashed {SIGNS['down']}: broker down, {SIGNS['ended']}: clean stop"
        title += ", ‖: frozen" if self.frozen else ""
        bars = [layer.encode(y=y, tooltip=tooltip) for layer in layers]
        return self._panel(title, 31 * len(self.replicas), on_top=bars)

    def _replica(self, node: str) -> Spec:
        own = self._chart(self.lines).transform_filter(alt.datum.replica == self.replicas.index(node))
        surface: dict[str, Any] = {"color": WATER, "strokeWidth": 1.5}
        water = own.mark_area(interpolate="step-after", color=WATER, opacity=0.35, line=surface, clip=True)
        end = own.mark_line(interpolate="step-after", strokeWidth=2.5, clip=True)
        glyphs: list[Layer] = []
        layers = [
            water.encode(y=self._y("hw", self.heights.offset)),
            end.encode(y=self._y("leo", self.heights.offset), color=self._colour(), strokeDash=self._dash()),
        ]
        if marks := series.marks_on_log(node, self.timeline, self.lost):
            text = self._chart(marks).mark_text(fontSize=17, fontWeight="bold", color=FAULT, dy=-1, clip=True)
            y = self._y("leo", self.heights.offset)
            glyphs.append(text.encode(y=y, text=alt.Text("glyph:N"), tooltip=[alt.Tooltip("what:N", title="here")]))
        title = f"{node} · line: log end offset · area: high watermark"
        if node == self.replicas[0]:
            title += " · ✕ acked here, lost · ✂ truncated · ▾ stopped · ↺ recovered"
        return self._panel(title, 84, *layers, on_top=glyphs, labels=node == self.replicas[-1])

    def _measure(self, title: str, points: Points, field: str, largest: float) -> Spec:
        # An age grows between two events; a count stays until the next event.
        line = self._chart(points).mark_line(interpolate="linear" if field == "seconds" else "step-after", clip=True)
        # One line per leader's term, since nothing is known between two terms.
        detail = alt.Detail("node:N" if field == "gap" else "term:N")
        return self._panel(
            title,
            84,
            line.encode(
                y=self._y(field, largest),
                color=self._colour(),
                strokeDash=self._dash(),
                strokeWidth=self._width(points),
                detail=detail,
            ),
        )

    def _in_view(self, stretches: Layer) -> Layer:
        """Limit intervals to the visible time range: fields `seen_s` and `seen_until`.

        The field `fitting` is the interval's word if there is room, otherwise the first character of the word.
        """
        # These fields are separate, because Vega evaluates them again whenever the visible range changes.
        has_room = f"datum.seen_until - datum.seen_s > ({UNTIL} - {FROM}) * {WORD_SHARE}"
        return (
            stretches.transform_filter(f"datum.until >= {FROM} && datum.s <= {UNTIL}")
            .transform_calculate(seen_s=f"max(datum.s, {FROM})", seen_until=f"min(datum.until, {UNTIL})")
            .transform_calculate(fitting=f"!datum.word || {has_room} ? datum.word : slice(datum.word, 0, 1)")
        )

    def _words(self, positions: Layer, text: str, *, x: str = "seen_s:Q", before: bool = False, **style: Any) -> Layer:
        """Return a layer that writes the field `text` to the right of each position, or to its left if `before`."""
        side: dict[str, Any] = {"align": "right", "dx": -6} if before else {"align": "left", "dx": 7}
        marks = positions.mark_text(baseline="middle", fontSize=13, fontWeight=600, clip=True, **side, **style)
        return marks.encode(text=text, x=alt.X(x, title=None, scale=_SHOWN))

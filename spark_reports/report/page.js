// Draws every chart of the page from the specification that stands beside it, in the page's own colours and width.
"use strict";
(() => {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const MARGIN = 124; // y labels and padding, in pixels
  const NARROWEST = 680; // of a panel, in pixels: its longest title is whole; a narrower window scrolls its charts

  // Variables of the style sheet: a chart that was drawn by night is dark on light when it is printed.
  const ink = "var(--ink)", soft = "var(--soft)", line = "var(--line)";
  const font = "system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif";
  const COLOURS = {
    background: "transparent",
    padding: { left: 5, top: 5, right: 19, bottom: 5 }, // half a label may stand out on the right
    font,
    view: { stroke: line },
    axis: {
      labelColor: soft, titleColor: ink, tickColor: line, domainColor: line, gridColor: line, labelFontSize: 13, labelFont: font,
      labelOverlap: true,
    },
    title: { color: ink, fontSize: 14, fontWeight: 600, font, offset: 6 },
    text: { color: ink, font },
    rule: { color: ink },
  };

  function widen(spec, width) {
    if (Array.isArray(spec.vconcat)) spec.vconcat.forEach((panel) => widen(panel, width));
    else spec.width = width;
  }

  // Columns, see packing.py, to one object per point.
  function unpacked(columns) {
    const names = Object.keys(columns);
    const values = names.map((name) => {
      const column = columns[name];
      return Array.isArray(column) ? column : column.at.map((place) => column.of[place]);
    });
    return names.length ? values[0].map((_, row) => Object.fromEntries(names.map((name, i) => [name, values[i][row]]))) : [];
  }

  // What goes wrong while Vega works through a chart's data it only writes to the console.
  // Its class of views is in no other reach than through one of them.
  const attentive = vegaEmbed(document.createElement("div"), { data: { values: [] }, mark: "point" }, { actions: false })
    .then(({ view }) => class extends view.constructor {
      error(what) { this.broken ??= what; }
    });

  // Whatever is wrong with a chart is said in its place, and the others are drawn.
  async function draw(figure) {
    const canvas = figure.querySelector(".canvas");
    try {
      const spec = JSON.parse(figure.querySelector("script").textContent);
      for (const name of Object.keys(spec.datasets)) spec.datasets[name] = unpacked(spec.datasets[name]);
      widen(spec, Math.max(NARROWEST, figure.clientWidth - MARGIN));
      const { view } = await vegaEmbed(canvas, spec, {
        actions: false, renderer: "svg", config: COLOURS, ast: false, viewClass: await attentive,
        tooltip: { theme: dark.matches ? "dark" : "light", id: "vg-tooltip-element" },
      });
      if (view.broken) throw view.broken;
      document.getElementById("vg-tooltip-element")?.classList.add("hw-tooltip");
    } catch (error) {
      canvas.textContent = `This chart could not be drawn: ${error}`;
      canvas.classList.add("broken");
    }
  }

  const figures = Array.from(document.querySelectorAll(".chart"));
  const shown = new Set();
  // Far-away charts are drawn when they come near: a page of many runs opens at once.
  figures.slice(0, 2).forEach((figure) => { shown.add(figure); draw(figure); });
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting || shown.has(entry.target)) continue;
      shown.add(entry.target);
      draw(entry.target);
    }
  }, { rootMargin: "1500px" });
  figures.forEach((figure) => watcher.observe(figure));

  const redraw = () => shown.forEach(draw);
  dark.addEventListener("change", redraw);
  let waiting = 0;
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth === width) return;
    width = window.innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(redraw, 200);
  });
  window.addEventListener("beforeprint", () => figures.forEach((figure) => shown.has(figure) || draw(figure)));
})();

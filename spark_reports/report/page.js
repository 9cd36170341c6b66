// Draws every chart of the page from the specification that stands beside it, in the page's own colours and width, and
// shows one part of the time in all of them: by the clock, by keyboard, by a click on a time, by the page's address.
"use strict";
(() => {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const MARGIN = 40; // what panels have beside them but labels, in pixels
  const LABELS = 48; // y labels, in pixels
  const NARROWEST = 220; // of a panel, in pixels: its times can be told apart; a narrower window scrolls its charts
  const WORD = 80; // pixels that a word on a bar takes

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
      labelOverlap: true, labelSeparation: 5,
    },
    title: { color: ink, fontSize: 14, fontWeight: 600, font, offset: 6 },
    text: { color: ink, font },
    rule: { color: ink },
  };

  // Panels have the same room for their labels, a chart alone as much as its own labels need.
  function widen(spec, width) {
    const { narrowest_px: narrowest = NARROWEST, labels_px: labels = LABELS } = spec.usermeta ?? {};
    if (Array.isArray(spec.vconcat)) {
      const room = Math.max(narrowest, width - MARGIN - labels);
      for (const panel of spec.vconcat) {
        Object.assign(panel, { width: room, title: { ...panel.title, text: folded(panel.title.text, room) } });
      }
      for (const param of spec.params ?? []) if (param.name === "word_share") param.value = WORD / room;
    } else Object.assign(spec, { width: Math.max(narrowest, width - 2), autosize: { type: "fit-x", contains: "padding" } });
  }

  const ruler = document.createElement("canvas").getContext("2d");
  ruler.font = `600 14px ${font}`;

  // A title in lines that are no longer than the room for them.
  function folded(title, room) {
    const lines = [];
    for (const word of title.split(" ")) {
      const longer = lines.length ? `${lines.at(-1)} ${word}` : word;
      if (lines.length && ruler.measureText(longer).width > room) lines.push(word);
      else lines.splice(-1, 1, longer);
    }
    return lines;
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

  // ------------------------------------------------------------------------------------------------------- charts

  const drawn = new Map(); // figure -> its view, the moments it knows and its replicas

  // Whatever is wrong with a chart is said in its place, and the others are drawn.
  async function draw(figure) {
    const canvas = figure.querySelector(".canvas");
    try {
      const spec = JSON.parse(figure.querySelector("script").textContent);
      for (const name of Object.keys(spec.datasets)) spec.datasets[name] = unpacked(spec.datasets[name]);
      widen(spec, figure.clientWidth);
      for (const param of spec.params ?? []) if (param.name in part) param.value = part[param.name];
      const { view } = await vegaEmbed(canvas, spec, {
        actions: false, renderer: "svg", config: COLOURS, ast: false, viewClass: await attentive,
        tooltip: { theme: dark.matches ? "dark" : "light", id: "vg-tooltip-element" },
      });
      if (view.broken) throw view.broken;
      const { instants, replicas } = spec.usermeta ?? {};
      if (instants) {
        drawn.set(figure, { view, instants: spec.datasets[instants], replicas });
        view.addEventListener("click", (_, item) => {
          const datum = item?.datum?.datum ?? item?.datum;
          if (typeof datum?.s === "number") show({ at_s: datum.s });
        });
        update(figure);
      }
    } catch (error) {
      canvas.textContent = `This chart could not be drawn: ${error}`;
      canvas.classList.add("broken");
    }
    fade(figure);
  }

  const figures = Array.from(document.querySelectorAll(".chart"));
  const shown = new Set();
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting || shown.has(entry.target)) continue;
      shown.add(entry.target);
      draw(entry.target);
    }
  }, { rootMargin: "1500px" });

  // What a chart paints would cover a shade behind it: it fades at an edge behind which there is more.
  function fade(figure) {
    const hidden = figure.scrollWidth - figure.clientWidth;
    figure.classList.toggle("more-left", figure.scrollLeft > 1);
    figure.classList.toggle("more-right", figure.scrollLeft < hidden - 1);
  }
  figures.forEach((figure) => figure.addEventListener("scroll", () => fade(figure)));

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

  // ------------------------------------------------------------------------------- the part of the time that is shown

  const clock = document.querySelector(".clock");
  const end = Number(clock?.dataset.end ?? 0);
  const decisive = { from_s: Number(clock?.dataset.from ?? 0), until_s: Number(clock?.dataset.until ?? 0) };
  const part = { ...decisive, at_s: -1 }; // the charts' parameters; at_s: the moment that is asked about, -1 for none
  const SHORTEST_S = 0.001;

  const seconds = (s) => s.toFixed(3);

  // Another part, or another moment: everything on the page follows.
  function show(change, anchor) {
    Object.assign(part, change);
    const length = Math.min(end, Math.max(SHORTEST_S, part.until_s - part.from_s));
    part.from_s = Math.min(Math.max(0, part.from_s), end - length);
    part.until_s = part.from_s + length;
    place();
    for (const figure of drawn.keys()) update(figure);
    const moment = part.at_s < 0 ? "" : `&at=${seconds(part.at_s)}`;
    const name = anchor ?? location.hash.slice(1).split("&")[0];
    history.replaceState(null, "", `#${name}&s=${seconds(part.from_s)}-${seconds(part.until_s)}${moment}`);
  }

  function place() {
    const slider = clock.querySelector(".clock-part");
    slider.style.left = `${(100 * part.from_s) / end}%`;
    slider.style.width = `${(100 * (part.until_s - part.from_s)) / end}%`;
    const said = `${seconds(part.from_s)} to ${seconds(part.until_s)} s of ${seconds(end)} s`;
    slider.setAttribute("aria-valuenow", seconds(part.from_s));
    slider.setAttribute("aria-valuetext", said);
    clock.querySelector("output").textContent = said;
  }

  // A chart in the part that is shown, and the state of its replicas at the moment that is asked about.
  function update(figure) {
    const { view, instants, replicas } = drawn.get(figure);
    const known = part.at_s < 0 ? undefined : instants.findLast((one) => one.s <= part.at_s + 5e-4);
    view.signal("from_s", part.from_s).signal("until_s", part.until_s).signal("at_s", known?.s ?? -1).runAsync();
    let state = figure.nextElementSibling;
    if (!state?.classList.contains("state")) {
      state = Object.assign(document.createElement("p"), { className: "state", ariaLive: "polite" });
      figure.after(state);
    }
    state.textContent = "";
    const lines = known ? [["", `${seconds(part.at_s)} s`], ["ISR", known.isr], ...replicas.map((node) => [node, known[`on ${node}`]])] : [];
    for (const [name, text] of lines) {
      const words = document.createElement("span");
      if (name) words.append(Object.assign(document.createElement("b"), { textContent: name }), " ");
      words.append(text);
      state.append(words);
    }
  }

  // Around the moment that is asked about, if it is to be seen.
  function zoom(factor) {
    const { from_s, until_s, at_s } = part;
    const middle = at_s >= from_s && at_s <= until_s ? at_s : (from_s + until_s) / 2;
    show({ from_s: middle - (middle - from_s) * factor, until_s: middle + (until_s - middle) * factor });
  }

  const move = (share) => {
    const by = share * (part.until_s - part.from_s);
    show({ from_s: part.from_s + by, until_s: part.until_s + by });
  };

  const DOES = {
    decisive: () => show(decisive), whole: () => show({ from_s: 0, until_s: end }),
    in: () => zoom(0.5), out: () => zoom(2), earlier: () => move(-0.5), later: () => move(0.5),
  };
  const KEYS = { "+": "in", "=": "in", "-": "out", 0: "whole", d: "decisive" };

  function pressed(event, keys) {
    if (event.ctrlKey || event.altKey || event.metaKey || !(event.key in keys)) return;
    event.preventDefault();
    keys[event.key]();
  }

  // The next moment that a chart knows, or the one before; the part follows it.
  function step(figure, by) {
    const { instants } = drawn.get(figure) ?? { instants: [] };
    const inPart = (one) => one.s >= part.from_s && one.s <= part.until_s;
    const one = part.at_s < 0 ? instants.find(inPart)
      : by > 0 ? instants.find(({ s }) => s > part.at_s + 5e-4) : instants.findLast(({ s }) => s < part.at_s - 5e-4);
    if (!one) return;
    const off = one.s < part.from_s ? one.s - part.from_s : one.s > part.until_s ? one.s - part.until_s : 0;
    show({ at_s: one.s, from_s: part.from_s + off, until_s: part.until_s + off });
  }

  // `#anchor&s=9.5-20.1&at=10.302`: the page as it was when this address was taken from it.
  function follow() {
    const [anchor, ...settings] = decodeURIComponent(location.hash.slice(1)).split("&");
    const given = Object.fromEntries(settings.map((one) => one.split("=")));
    const found = /^([\d.]+)-([\d.]+)$/.exec(given.s ?? "");
    const at_s = given.at === undefined ? -1 : Number(given.at);
    if (clock && found) show({ from_s: Number(found[1]), until_s: Number(found[2]), at_s }, anchor);
    else if (clock && at_s >= 0) show({ from_s: at_s - end / 24, until_s: at_s + end / 24, at_s }, anchor);
    else if (clock) place();
    const target = document.getElementById(anchor);
    if (!target || (!settings.length && !target.matches("details"))) return;
    for (let box = target.closest("details"); box; box = box.parentElement.closest("details")) box.open = true;
    target.scrollIntoView();
  }

  if (clock) {
    const pane = clock.querySelector(".clock-pane"), slider = clock.querySelector(".clock-part");
    for (const button of clock.querySelectorAll("button")) button.addEventListener("click", DOES[button.dataset.do]);
    const byKey = Object.fromEntries(Object.entries(KEYS).map(([key, does]) => [key, DOES[does]]));
    slider.addEventListener("keydown", (event) => pressed(event, {
      ...byKey, ArrowLeft: () => move(-0.1), ArrowRight: () => move(0.1), ArrowDown: () => move(-0.1), ArrowUp: () => move(0.1),
      Home: () => move(-1e9), End: () => move(1e9),
    }));
    for (const figure of figures) {
      figure.addEventListener("keydown", (event) => pressed(event, {
        ...byKey, ArrowLeft: () => step(figure, -1), ArrowRight: () => step(figure, 1), Escape: () => show({ at_s: -1 }),
      }));
    }
    let began;
    const at = (event) => (end * (event.clientX - pane.getBoundingClientRect().left)) / pane.clientWidth;
    pane.addEventListener("pointerdown", (event) => { began = event; pane.setPointerCapture(event.pointerId); });
    pane.addEventListener("pointermove", (event) => {
      if (!began || Math.abs(event.clientX - began.clientX) < 4) return;
      show({ from_s: Math.min(at(began), at(event)), until_s: Math.max(at(began), at(event)) });
    });
    pane.addEventListener("pointerup", (event) => {
      if (began && Math.abs(event.clientX - began.clientX) < 4) move((at(event) - (part.from_s + part.until_s) / 2) / (part.until_s - part.from_s));
      began = undefined;
    });
    pane.addEventListener("dblclick", DOES.whole);
    // The clock stays at the top of the window: what an address leads to begins below it.
    const measure = () => document.documentElement.style.setProperty("--clock-height", `${clock.offsetHeight + 8}px`);
    new ResizeObserver(measure).observe(clock);
    measure();
  }
  window.addEventListener("hashchange", follow);
  follow();

  // Far-away charts are drawn when they come near: a page of many runs opens at once.
  figures.filter((figure) => !figure.closest("details:not([open])")).slice(0, 2).forEach((figure) => { shown.add(figure); draw(figure); });
  figures.forEach((figure) => watcher.observe(figure));
})();

// The time strip: ISR ribbons, faults, log end offsets and high watermark, lag. Drag selects a stretch, the wheel zooms.
import { type Run, kindOf, nameOf, seconds } from "./contract";
import { type RowsScene, drawRows, heightOf, rowsOf } from "./coordinator_rows";
import type { CoordinatorSeries } from "./coordinators";
import { fitted, s } from "./dom";
import { type Series, type Step, valueAt } from "./series";
import { LEADING, isSeen, lookOf } from "./standings";
import { brokerClass } from "./marks";
import { lettersIn, nameText, toldApart } from "./names";

export interface Window { from: number; to: number }
/** A step of the timeline that happens at a time. */
export interface StepMark { index: number; at: number; sentence: string; lasts: string | null; needless: string }
/** steps: those that stand on the strip, in a run that is played on */
export interface StripScene { run: Run; series: Series; coordinators: CoordinatorSeries; partition: string; window: Window; now: number; hidesAfter: number; end: number; steps: StepMark[] }

const LABEL = 138, RIGHT = 46, RIBBON = 17, CHART = 84, LAG = 38, STEP_ROW = 26, LETTER = 7.2;

export const timeAt = (window: Window, width: number, x: number): number =>
  window.from + ((x - LABEL) / (width - LABEL - RIGHT)) * (window.to - window.from);

export function drawStrip(scene: StripScene, width: number): SVGSVGElement {
  const { run, series, window, hidesAfter } = scene;
  const xAt = (at: number): number => LABEL + ((Math.min(Math.max(at, window.from), window.to) - window.from) / (window.to - window.from)) * (width - LABEL - RIGHT);
  const faults = run.tape.faults.filter(([verb, , , from, until]) => !SHOWN_BY_NODE.includes(verb) && from <= hidesAfter && (until ?? scene.end) >= window.from && from <= window.to).slice(0, 4);
  const rowsScene: RowsScene = { tape: run.tape, series: scene.coordinators, partition: scene.partition, from: window.from, to: Math.min(window.to, hidesAfter), end: scene.end, xAt }, rows = rowsOf(rowsScene);
  const ribbonsY = 44, rowsY = ribbonsY + series.replicas.length * RIBBON + 4, faultsY = rowsY + heightOf(rows);
  const chartY = faultsY + (faults.length ? faults.length * 16 + 4 : 0) + 6, lagY = chartY + CHART + 12, stepsY = lagY + LAG + 8, height = stepsY + (scene.steps.length ? STEP_ROW : 0);
  const root = s("svg", { class: "strip", width, height, viewBox: `0 0 ${width} ${height}`, role: "presentation" });
  root.append(overview(scene, width));
  const names = toldApart(series.replicas.map((node) => nameOf(run.tape, node)), lettersIn(LABEL - 12, LETTER) - "ISR ".length);
  for (const tick of ticks(window)) root.append(
    s("line", { class: "tick", x1: xAt(tick), x2: xAt(tick), y1: 38, y2: height - 4 }),
    s("text", { class: "small muted mono", x: xAt(tick), y: 34, "text-anchor": "middle" }, label(tick, window)));
  series.replicas.forEach((node, row) => {
    const y = ribbonsY + row * RIBBON;
    root.append(nameText({ class: "small", x: 8, y: y + 12 }, `ISR ${names.get(nameOf(run.tape, node))}`, LABEL - 12, LETTER));
    each(series.standing.get(node)!, scene, (from, to, standing) => {
      if (!isSeen(standing)) return;
      const { word, kind, label, isThin } = lookOf(standing), tall = standing === LEADING ? 14 : 11;
      root.append(s("rect", { class: `ribbon ${kind} ${brokerClass(run, node)}`, x: xAt(from), y: y + (14 - tall) / 2, width: Math.max(1, xAt(to) - xAt(from)), height: isThin ? 3 : tall },
        s("title", {}, `${nameOf(run.tape, node)}: ${word}, ${seconds(from)} to ${seconds(to)} s`)));
      if (label && xAt(to) - xAt(from) > label.length * 7) root.append(s("text", { class: `ribbon-text ${kind}`, x: xAt(from) + 4, y: y + 11 }, label));
    });
  });
  drawRows(root, rows, rowsScene, rowsY, LABEL);
  const letters = lettersIn(width - LABEL - 80, 6.6), cut = faults.map(([, text]) => fitted(text, width - LABEL - 80, 6.6));
  const faultTexts = new Set(cut).size < new Set(faults.map(([, text]) => text)).size ? toldApart(faults.map(([, text]) => text), letters) : undefined;
  faults.forEach(([, text, , from, until], row) => {
    const y = faultsY + row * 16, to = Math.min(until ?? window.to, hidesAfter), isEndless = until === null && hidesAfter >= scene.end;
    root.append(s("rect", { class: isEndless ? "fault endless" : "fault", x: xAt(from), y: isEndless ? y + 11 : y, width: Math.max(3, xAt(to) - xAt(from)), height: isEndless ? 3 : 13 }, s("title", {}, text)));
    root.append(s("text", { class: "small fault-text", x: Math.min(xAt(from) + 4, width - 260), y: y + (isEndless ? 9 : 11) }, faultTexts?.get(text) ?? cut[row]!));
  });
  if (faults.length) root.append(s("text", { class: "small", x: 8, y: faultsY + 11 }, "Faults"));
  drawLines(root, scene, xAt, chartY, width);
  drawLag(root, scene, xAt, lagY);
  drawSteps(root, scene, xAt, stepsY);
  run.tape.key.forEach((sign, place) => {
    const at = run.tape.at[place]!;
    if (sign === "elected" && at > 0 && at >= window.from && at <= window.to && at <= hidesAfter)
      root.append(s("line", { class: "elected", x1: xAt(at), x2: xAt(at), y1: 38, y2: height - 4 }));
  });
  if (hidesAfter < Math.min(window.to, scene.end)) root.append(s("rect", { class: "hidden-future", x: xAt(hidesAfter), y: 38, width: Math.max(0, xAt(window.to) - xAt(hidesAfter)), height: height - 42 }),
    s("text", { class: "muted", x: (xAt(hidesAfter) + xAt(window.to)) / 2, y: chartY + 30, "text-anchor": "middle" }, "?"));
  if (scene.now >= window.from && scene.now <= window.to) root.append(playhead(xAt(scene.now), height));
  return root;
}

export const SHOWN_BY_NODE = ["kill", "power_off", "stop", "start", "restart", "heal", "release", "resume", "pause", "check"];

export function playhead(x: number, height: number): SVGGElement {
  return s("g", { class: "playhead", transform: `translate(${x} 0)` }, s("line", { x1: 0, x2: 0, y1: 30, y2: height - 2 }), s("circle", { cx: 0, cy: 30, r: 6 }));
}

export const xOf = (window: Window, width: number, at: number): number =>
  LABEL + ((at - window.from) / (window.to - window.from)) * (width - LABEL - RIGHT);

/** The whole run as one line, with the stretch that is shown below. */
function overview(scene: StripScene, width: number): SVGGElement {
  const { run, window, end, hidesAfter } = scene, group = s("g", { class: "overview" });
  const xAt = (at: number): number => LABEL + (at / Math.max(1, end)) * (width - LABEL - RIGHT);
  group.append(s("text", { class: "small muted", x: 8, y: 15 }, "Whole run"), s("rect", { class: "overview-line", x: LABEL, y: 8, width: width - LABEL - RIGHT, height: 8, rx: 4 }));
  run.tape.key.forEach((sign, place) => {
    if (sign && run.tape.at[place]! <= hidesAfter) group.append(s("rect", { class: `mark ${sign}`, x: xAt(run.tape.at[place]!) - 1, y: 6, width: 2.5, height: 12 }));
  });
  group.append(s("rect", { class: "overview-window", x: xAt(window.from), y: 4, width: Math.max(4, xAt(Math.min(window.to, end)) - xAt(window.from)), height: 16, rx: 4 }));
  return group;
}

function each(steps: Step[], { window, end, hidesAfter }: StripScene, draw: (from: number, to: number, value: number) => void): void {
  steps.forEach(([from, value], place) => {
    const to = Math.min(steps[place + 1]?.[0] ?? end, window.to, hidesAfter);
    if (to >= window.from && from <= Math.min(window.to, hidesAfter)) draw(Math.max(from, window.from), to, value);
  });
}

function drawLines(root: SVGSVGElement, scene: StripScene, xAt: (at: number) => number, y: number, width: number): void {
  const { run, series } = scene, top = Math.max(1, ...[...series.leo.values()].map((steps) => greatest(steps, scene.hidesAfter)));
  const yAt = (value: number): number => y + CHART - (value / top) * (CHART - 6);
  root.append(s("text", { class: "small", x: 8, y: y + 14 }, "Log end offset"), s("text", { class: "small water-text", x: 8, y: y + 30 }, "High watermark"),
    s("text", { class: "small muted", x: 8, y: y + 46 }, run.head.sampled),
    s("text", { class: "small muted mono", x: LABEL - 6, y: yAt(top) + 4, "text-anchor": "end" }, String(top)),
    s("text", { class: "small muted mono", x: LABEL - 6, y: yAt(0), "text-anchor": "end" }, "0"));
  const water = path(series.hw, scene, xAt, yAt);
  if (water.length) root.append(s("path", { class: "water-area", d: `${water} V${yAt(0)} H${xAt(Math.max(scene.window.from, series.hw[0]?.[0] ?? 0))} Z` }), s("path", { class: run.head.sampled ? "water-line sampled" : "water-line", d: water }));
  if (run.head.sampled) each(series.hw, scene, (from, _, value) => root.append(s("circle", { class: "sample", cx: xAt(from), cy: yAt(value), r: 3 })));
  if (series.stable.length) drawHeld(root, scene, xAt, yAt, y + 46);
  const ends: number[] = [], names = toldApart(series.replicas.map((node) => nameOf(run.tape, node)), lettersIn(RIGHT - 4, LETTER));
  for (const node of series.replicas) {
    const steps = series.leo.get(node)!, at = Math.min(scene.window.to, scene.hidesAfter);
    root.append(s("path", { class: `leo-line ${brokerClass(run, node)}`, d: path(steps, scene, xAt, yAt) }));
    let labelY = yAt(Math.max(0, valueAt(steps, at))) + 4;
    while (ends.some((other) => Math.abs(other - labelY) < 12)) labelY += 12;
    ends.push(labelY);
    root.append(nameText({ class: `small line-name ${brokerClass(run, node)}`, x: width - RIGHT + 4, y: labelY }, names.get(nameOf(run.tape, node))!, RIGHT - 6, LETTER));
  }
}

/** The last stable offset, and what lies between it and the high watermark. */
function drawHeld(root: SVGSVGElement, scene: StripScene, xAt: (at: number) => number, yAt: (value: number) => number, labelY: number): void {
  const { hw, stable } = scene.series, moments = [...new Set([...hw, ...stable].map(([at]) => at))].sort((one, other) => one - other);
  each(moments.map((at): Step => [at, at]), scene, (from, to, at) => {
    const high = valueAt(hw, at), low = valueAt(stable, at);
    if (low >= 0 && low < high && xAt(to) > xAt(from)) root.append(s("rect", { class: "held-area", x: xAt(from), y: yAt(high), width: xAt(to) - xAt(from), height: yAt(low) - yAt(high) }));
  });
  root.append(s("path", { class: "stable-line", d: path(stable, scene, xAt, yAt) }), s("text", { class: "small stable-text", x: 8, y: labelY }, "Last stable offset"));
}

function drawLag(root: SVGSVGElement, scene: StripScene, xAt: (at: number) => number, y: number): void {
  const { run, series } = scene, moments = new Set<number>();
  for (const steps of series.leo.values()) for (const [at] of steps) moments.add(at);
  for (const [at] of series.leader) moments.add(at);
  const sorted = [...moments].filter((at) => at <= scene.hidesAfter).sort((one, other) => one - other);
  const lags = new Map(series.replicas.map((node) => [node, [] as Step[]]));
  let top = 1;
  for (const at of sorted) {
    const leader = valueAt(series.leader, at), end = leader >= 0 ? valueAt(series.leo.get(leader) ?? [], at) : -1;
    for (const node of series.replicas) {
      const lag = end < 0 ? 0 : Math.max(0, end - Math.max(0, valueAt(series.leo.get(node)!, at)));
      top = Math.max(top, lag);
      lags.get(node)!.push([at, lag]);
    }
  }
  const yAt = (value: number): number => y + LAG - (value / top) * (LAG - 4);
  root.append(s("text", { class: "small", x: 8, y: y + 14 }, "Records behind"), s("text", { class: "small muted mono", x: LABEL - 6, y: y + 8, "text-anchor": "end" }, String(top)));
  for (const node of series.replicas) root.append(s("path", { class: `leo-line ${brokerClass(run, node)}`, d: path(lags.get(node)!, scene, xAt, yAt) }));
}

/** Diamonds that can be dragged. */
function drawSteps(root: SVGSVGElement, { steps, window }: StripScene, xAt: (at: number) => number, y: number): void {
  if (steps.length) root.append(s("text", { class: "small", x: 8, y: y + 17 }, "Steps"));
  for (const { index, at, sentence, needless } of steps) {
    if (at < window.from || at > window.to) continue;
    root.append(s("g", { class: needless ? "step-mark needless" : "step-mark", "data-step": index, transform: `translate(${xAt(at)} ${y + 13})` }, s("title", {}, `${sentence}, ${seconds(at)} s${needless && ` (${needless})`}: drag it to another time`),
      s("rect", { class: "step-area", x: -12, y: -13, width: 24, height: 26 }), s("path", { d: "M0 -8 L8 0 L0 8 L-8 0 Z" })));
  }
}

const greatest = (steps: Step[], until: number): number => steps.reduce((most, [at, value]) => (at <= until ? Math.max(most, value) : most), 0);

/** Steps as a path; where several fall on one pixel, their least and greatest. */
function path(steps: Step[], scene: StripScene, xAt: (at: number) => number, yAt: (value: number) => number): string {
  const parts: string[] = [];
  let column = -1, least = 0, greatest = 0, last = 0;
  const flush = (): void => {
    if (column >= 0 && least !== greatest) parts.push(`V${yAt(least).toFixed(1)}V${yAt(greatest).toFixed(1)}V${yAt(last).toFixed(1)}`);
  };
  each(steps, scene, (from, to, value) => {
    const x = Math.round(xAt(from));
    if (!parts.length) parts.push(`M${xAt(from).toFixed(1)} ${yAt(value).toFixed(1)}`);
    if (x === column) {
      least = Math.min(least, value);
      greatest = Math.max(greatest, value);
    } else {
      flush();
      column = x;
      least = greatest = value;
      parts.push(`H${xAt(from).toFixed(1)}V${yAt(value).toFixed(1)}`);
    }
    last = value;
    if (xAt(to) - x > 1) {
      flush();
      least = greatest = value;
      parts.push(`V${yAt(value).toFixed(1)}H${xAt(to).toFixed(1)}`);
    }
  });
  flush();
  return parts.join("");
}

const STEPS = [1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 2e6, 5e6, 1e7, 2e7, 3e7, 6e7, 1.2e8, 3e8, 6e8, 1.8e9, 3.6e9];
function ticks({ from, to }: Window): number[] {
  const step = STEPS.find((size) => (to - from) / size <= 9) ?? STEPS.at(-1)!, found: number[] = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) found.push(at);
  return found;
}
const label = (at: number, { from, to }: Window): string => `${(at / 1e6).toFixed(to - from < 2e4 ? 3 : to - from < 5e6 ? 2 : to - from < 2e7 ? 1 : 0)} s`;

/** The events that a reader would want on screen around the moment the page opens on. */
export function openingWindow(run: Run): Window {
  const { tape } = run, at = tape.at[run.opens_at] ?? 0, end = Math.max(1, tape.end_us);
  const story = run.stories[0]?.moments.map(([, moment]) => moment) ?? [];
  const busy = tape.key.flatMap((sign, place) => (sign && tape.at[place]! > 0 ? [tape.at[place]!] : []));
  const before = [...story, ...busy].filter((moment) => moment < at).slice(-6), after = [...story, ...busy].filter((moment) => moment > at).slice(0, 2);
  let from = Math.min(at, ...before), to = Math.max(at, ...after);
  if (to - from > end * 0.6) { from = Math.min(at, ...story.filter((moment) => moment < at)); to = at; }
  const pad = Math.max((to - from) * 0.12, Math.min(end, 5e4));
  return { from: Math.max(0, from - pad), to: Math.min(end, to + pad) };
}

export const isQuiet = (run: Run, place: number): boolean => ["follower_fetched", "records_sent", "request_completed"].includes(kindOf(run.tape, place));

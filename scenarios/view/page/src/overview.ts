// Many partitions: a row each, and in it for every broker how it stands now and, as on the time strip, over the run.
import { type Place, type Run, brokersOf, nameOf, seconds } from "./contract";
import { h, s } from "./dom";
import { type Cluster, NOT_STARTED } from "./fold";
import type { StandingsBy, Step } from "./series";
import { LEADING, LOOKS, type Look, isSeen, lookOf, standingOf } from "./standings";
import { brokerClass } from "./marks";
import { lettersIn, toldApart } from "./names";

const NAME = 150, LETTER = 7.2, STEPS_SAID = 8;
/** Of a bar, in its own units: it is drawn as wide as its column. */
const WIDTH = 1000, HEIGHT = 12, LEAST = 6;
const topOf = ({ standing, isThin }: Look): number => (standing === LEADING ? 0 : isThin ? 4.5 : 2);

export interface Overview { key: string; element: HTMLElement; show(cluster: Cluster, now: number): void }

/** Built once; `show` writes what changes from moment to moment. limit: nothing after it is on the page */
export function overviewPane(key: string, run: Run, standings: StandingsBy, limit: number, choose: (partition: Place) => void): Overview {
  const { tape } = run, brokers = brokersOf(tape), end = Math.max(1, tape.end_us);
  const lost = new Set(limit >= end ? run.head.findings.map((finding) => finding.partition) : []);
  const updates: ((cluster: Cluster) => void)[] = [], written = toldApart(tape.partitions, lettersIn(NAME, LETTER));
  const rows = tape.partitions.map((name, partition) => {
    const isr = h("td", {}), cells = brokers.map((node) => {
      const steps = standings.get(partition)?.get(node)?.filter(([at]) => at <= limit) ?? [];
      if (!steps.some(([, standing]) => isSeen(standing))) return h("td", {});
      const word = h("span", {});
      updates.push((cluster) => put(word, ...wordOf(cluster, partition, node)));
      return h("td", {}, word, bar(run, node, steps, limit, end));
    });
    updates.push((cluster) => {
      const part = cluster.partitions[partition]!;
      put(isr, part.exists ? `${part.isr.length} of ${part.assigned.length}` : "-", "");
    });
    return h("tr", {}, h("th", { scope: "row" }, h("button", { class: "plain mono", title: name, click: () => choose(partition) }, written.get(name)), lost.has(name) && h("span", { class: "bad" }, " \u2715")), ...cells, isr);
  });
  const head = h("tr", {}, h("th", { scope: "col" }, "partition"), ...brokers.map((node) => h("th", { scope: "col", class: `of-broker ${brokerClass(run, node)}` }, nameOf(tape, node))), h("th", { scope: "col" }, "ISR"));
  const element = h("div", { class: "overview-pane", tabindex: 0, role: "region", "aria-label": "Partitions" }, legend(), h("table", {}, h("thead", {}, head), h("tbody", {}, ...rows)));
  return { key, element, show: (cluster, now) => {
    element.style.setProperty("--now", `${(Math.min(now, end) / end) * 100}%`);
    for (const update of updates) update(cluster);
  } };
}

function put(element: HTMLElement, text: string, classes: string): void {
  if (element.textContent !== text) element.textContent = text;
  if (element.className !== classes) element.className = classes;
}

function wordOf(cluster: Cluster, partition: Place, node: Place): [text: string, classes: string] {
  const standing = standingOf(cluster, partition, node);
  if (!isSeen(standing)) return [cluster.nodes[node] === NOT_STARTED ? "not started" : "-", "standing muted"];
  return [`${lookOf(standing).sign} ${cluster.partitions[partition]!.replicas.get(node)?.leo ?? 0}`, `standing s${standing}`];
}

/** How the broker stood from the beginning to `limit`: one path for each standing. */
function bar(run: Run, node: Place, steps: readonly Step[], limit: number, end: number): HTMLElement {
  const paths = new Map<number, string[]>(), drawn = new Map<number, number>(), until = Math.min(limit, end);
  steps.forEach(([from, standing], place) => {
    const x = Math.round((from / end) * WIDTH), to = Math.round((Math.min(steps[place + 1]?.[0] ?? until, until) / end) * WIDTH);
    // Of the same on the same place, the first is enough: a bar has at most so many parts, however often the ISR changes.
    if (!isSeen(standing) || to <= (drawn.get(standing) ?? -1)) return;
    drawn.set(standing, to);
    const y = topOf(lookOf(standing)), path = paths.get(standing) ?? [];
    path.push(`M${x} ${y}h${Math.max(LEAST, to - x)}V${HEIGHT - y}H${x}z`);
    paths.set(standing, path);
  });
  const said = steps.filter(([, standing]) => isSeen(standing)), more = said.length - STEPS_SAID;
  const words = [...said.slice(0, STEPS_SAID).map(([at, standing]) => `${lookOf(standing).word} from ${seconds(at)} s`), ...(more > 0 ? [`and ${more} more`] : [])];
  const text = `${nameOf(run.tape, node)}: ${words.join(", ")}`;
  return h("div", { class: "bar", title: text }, s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": text },
    ...[...paths].map(([standing, path]) => s("path", { class: `ribbon ${lookOf(standing).kind} ${brokerClass(run, node)}`, d: path.join("") }))));
}

function legend(): HTMLElement {
  const item = (look: Look): HTMLElement => h("span", { class: "legend-item" }, h("span", {}, look.sign),
    s("svg", { width: 26, height: HEIGHT, "aria-hidden": "true" }, s("path", { class: `ribbon ${look.kind} broker-0`, d: `M1 ${topOf(look)}h24V${HEIGHT - topOf(look)}H1z` })), look.word);
  return h("p", { class: "legend" }, ...LOOKS.map(item), h("span", { class: "legend-item" }, "the number is the LEO, the bar is the whole run"));
}

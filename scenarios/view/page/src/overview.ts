// Many partitions: one row each, a cell for each broker, and who led over the run.
import { type Place, type Run, brokersOf, nameOf } from "./contract";
import { fitted, h, s } from "./dom";
import { type Cluster } from "./fold";
import { DOWN_IN, FROZEN_IN, FROZEN_OUT, GONE, LEADING, OUT, standingOf } from "./series";
import { brokerClass } from "./marks";

const SIGN: Record<number, [sign: string, words: string]> = {
  [LEADING]: ["\u265b", "leads"], [2]: ["\u25a0", "in the ISR"], [OUT]: ["\u25a1", "out of the ISR"], [GONE]: ["\u2715", "down"],
  [DOWN_IN]: ["\u2715!", "down, still in the ISR"], [FROZEN_IN]: ["\u2016", "frozen, in the ISR"], [FROZEN_OUT]: ["\u2016", "frozen"],
};

/** Leaders of every partition over the run, in one pass. */
export function leadersOf(run: Run): Map<Place, [at: number, leader: Place][]> {
  const found = new Map<Place, [number, Place][]>();
  run.tape.changes.forEach((changes, place) => {
    for (const change of changes) if (change[0] === "part") {
      const steps = found.get(change[1]) ?? [];
      if (steps.at(-1)?.[1] !== change[2]) steps.push([run.tape.at[place]!, change[2]]);
      found.set(change[1], steps);
    }
  });
  return found;
}

const NAME = 150, CELL = 62, ISR = 70, BAR_MIN = 160, BAR_HEIGHT = 16, LETTER = 9;

/** width: of the place it stands in     now: the moment on the page     limit: nothing after it is shown */
export function overviewPane(run: Run, cluster: Cluster, leaders: Map<Place, [number, Place][]>, width: number, now: number, limit: number, choose: (partition: Place) => void): HTMLElement {
  const { tape } = run, brokers = brokersOf(tape), bar = Math.max(BAR_MIN, width - NAME - brokers.length * CELL - ISR - 60);
  const end = Math.max(1, tape.end_us), lost = new Set(run.head.findings.map((finding) => finding.partition));
  const xAt = (at: number): number => (Math.min(at, end) / end) * bar;
  const rows = tape.partitions.map((name, partition) => {
    const part = cluster.partitions[partition]!;
    const line = s("svg", { class: "leaders", width: bar, height: BAR_HEIGHT, viewBox: `0 0 ${bar} ${BAR_HEIGHT}`, role: "img", "aria-label": "leaders over the run" });
    (leaders.get(partition) ?? []).forEach(([at, leader], place, steps) => {
      if (at > limit) return;
      const x = xAt(at), until = xAt(Math.min(limit, steps[place + 1]?.[0] ?? end)), who = leader < 0 ? "no leader" : nameOf(tape, leader);
      line.append(s("rect", { class: leader < 0 ? "fault" : `badge ${brokerClass(run, leader)}`, x, y: 0, width: Math.max(1, until - x), height: BAR_HEIGHT }, s("title", {}, who)));
      if (until - x > who.length * LETTER + 6) line.append(s("text", { class: leader < 0 ? "who none" : "who", x: x + 5, y: BAR_HEIGHT - 4 }, who));
    });
    line.append(s("line", { class: "moment", x1: xAt(now), x2: xAt(now), y1: 0, y2: BAR_HEIGHT }));
    return h("tr", {}, h("th", { scope: "row" }, h("button", { class: "plain mono", click: () => choose(partition) }, fitted(name, NAME)), limit >= end && lost.has(name) && h("span", { class: "bad" }, " \u2715")),
      ...brokers.map((node) => {
        if (!part.assigned.includes(node)) return h("td", {}, "");
        const [sign, words] = SIGN[standingOf(cluster, partition, node)] ?? ["", ""], replica = part.replicas.get(node);
        return h("td", { class: `standing s${standingOf(cluster, partition, node)}`, title: `${words}, LEO ${replica?.leo ?? 0}, HW ${replica?.hw ?? 0}` }, `${sign} ${replica?.leo ?? 0}`);
      }), h("td", {}, part.exists ? `${part.isr.length} of ${part.assigned.length}` : "-"), h("td", {}, line));
  });
  return h("div", { class: "overview-pane" }, h("table", {}, h("caption", {}, "\u265b leads   \u25a0 in the ISR   \u25a1 out   \u2715 down   \u2715! down, still in the ISR   the number is the LEO"),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "partition"), ...brokers.map((node) => h("th", { scope: "col" }, nameOf(tape, node))), h("th", { scope: "col" }, "ISR"), h("th", { scope: "col" }, "leader over the run"))), h("tbody", {}, ...rows)));
}

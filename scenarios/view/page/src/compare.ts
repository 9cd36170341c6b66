// Several runs on one clock: a small stage for each, and the moment from which they differ.
import { type Place, type Run, kindOf, nameOf, placeAt, seconds, sentence, verdictOf } from "./contract";
import { h } from "./dom";
import { type Cluster } from "./fold";
import { compactRoom, drawStage, type Scene } from "./stage";

/** The first event at which two runs part: each has another one there. NOTHING in common: place 0 of both. */
export function firstDifference(one: Run, other: Run): { at: number; first: Place; second: Place } | undefined {
  const plain = (run: Run): Place[] => run.tape.at.map((_, place) => place).filter((place) => !["run_started", "node_started"].includes(kindOf(run.tape, place)));
  const left = plain(one), right = plain(other);
  const same = (a: Place, b: Place): boolean =>
    one.tape.at[a] === other.tape.at[b] && kindOf(one.tape, a) === kindOf(other.tape, b) && nameOf(one.tape, one.tape.node[a]!) === nameOf(other.tape, other.tape.node[b]!)
    && sentence(one.tape, a).replace(/acks=\w+/, "") === sentence(other.tape, b).replace(/acks=\w+/, "");
  for (let place = 0; place < Math.max(left.length, right.length); place += 1) {
    const a = left[place], b = right[place];
    if (a !== undefined && b !== undefined && same(a, b)) continue;
    if (a === undefined && b === undefined) return undefined;
    const at = Math.min(a === undefined ? Infinity : one.tape.at[a]!, b === undefined ? Infinity : other.tape.at[b]!);
    return { at, first: a ?? one.tape.at.length - 1, second: b ?? other.tape.at.length - 1 };
  }
  return undefined;
}

/** `, because p1 acks=all is not p1 acks=1`: what was built differently. */
function settingsThatDiffer(base: Run, run: Run): string {
  const here = [...run.head.built, run.head.era].filter((line) => ![...base.head.built, base.head.era].includes(line));
  return here.length ? `, with ${here.join("; ")}` : "";
}

export interface Seat { run: Run; cluster: Cluster; scene: Scene }

export function comparePane(seats: Seat[], shown: number, now: number, width: number, hides: boolean, choose: (place: number) => void, seekTime: (at: number) => void): HTMLElement {
  const columns = width > 1180 ? Math.min(3, seats.length) : width > 760 ? Math.min(2, seats.length) : 1;
  const each = Math.floor((width - (columns - 1) * 10) / columns) - 22, base = seats[0]!.run;
  const tops = seats.map(({ scene }) => Math.max(0, ...scene.replicas.map((node) => scene.cluster.partitions[scene.partition]?.replicas.get(node)?.leo ?? 0)));
  const room = compactRoom(each), first = Math.max(0, Math.max(...tops) - room + 1);
  const grid = h("div", { class: `compare columns-${columns}` });
  seats.forEach(({ run, scene }, place) => {
    const { good, text } = verdictOf(run.head);
    const card = h("section", { class: place === shown ? "seat on" : "seat", "aria-label": run.head.label },
      h("header", {}, h("button", { class: "plain strong", click: () => choose(place) }, run.head.label), !hides && h("span", { class: good ? "pill good" : "pill bad" }, `${good ? "\u2713" : "\u2715"} ${text}`)));
    const differs = place > 0 ? firstDifference(base, run) : undefined;
    if (differs && now >= differs.at) card.append(h("p", { class: "small differs" }, h("button", { class: "plain", click: () => seekTime(differs.at) }, `From ${seconds(differs.at)} s`),
      ` this run differs from ${base.head.label}${settingsThatDiffer(base, run)}. Here: ${sentence(run.tape, differs.second)}. There: ${sentence(base.tape, differs.first)}.`));
    else if (place > 0) card.append(h("p", { class: "small muted" }, differs ? "As the first run until now." : "The same events as the first run."));
    card.append(drawStage({ ...scene, compact: true, hides, first }, each), h("p", { class: "small" }, sentence(run.tape, placeAt(run.tape, now))));
    grid.append(card);
  });
  return grid;
}

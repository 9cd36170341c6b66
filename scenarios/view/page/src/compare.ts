// Several runs on one clock: a small stage for each, and the moment from which they differ.
import { type Run, seconds, sentence, verdictOf } from "./contract";
import { h } from "./dom";
import { compactRoom, drawStage, type Scene } from "./stage";

/** `, with p1 acks=all`: settings of this run that the other has not. */
function settingsThatDiffer(base: Run, run: Run): string {
  const here = [...run.head.built, run.head.era].filter((line) => ![...base.head.built, base.head.era].includes(line));
  return here.length ? `, with ${here.join("; ")}` : "";
}

export interface Seat { run: Run; scene: Scene }

export function comparePane(seats: Seat[], shown: number, width: number, hides: boolean, choose: (place: number) => void, seekTime: (at: number) => void): HTMLElement {
  const columns = width > 1180 ? Math.min(3, seats.length) : width > 760 ? Math.min(2, seats.length) : 1;
  const each = Math.floor((width - (columns - 1) * 10) / columns) - 22, base = seats[0]!.run;
  const tops = seats.map(({ scene }) => Math.max(0, ...scene.replicas.map((node) => scene.cluster.partitions[scene.partition]?.replicas.get(node)?.leo ?? 0)));
  const room = compactRoom(each), first = Math.max(0, Math.max(...tops) - room + 1);
  const grid = h("div", { class: `compare columns-${columns}` });
  seats.forEach(({ run, scene }, place) => {
    const now = hides ? Math.min(scene.now, run.tape.at[scene.cluster.place] ?? 0) : scene.now;
    const { good, text } = verdictOf(run.head);
    const card = h("section", { class: place === shown ? "seat on" : "seat", "aria-label": run.head.label },
      h("header", {}, h("button", { class: "plain strong", click: () => choose(place) }, run.head.label), !hides && h("span", { class: good ? "pill good" : "pill bad" }, `${good ? "\u2713" : "\u2715"} ${text}`)));
    const [at, here, there] = run.differs ?? [Infinity, "", ""];
    card.append(drawStage({ ...scene, compact: true, hides, first }, each), h("p", { class: "small" }, sentence(run.tape, scene.cluster.place)));
    if (now >= at) card.append(h("p", { class: "small differs" }, h("button", { class: "plain", click: () => seekTime(at) }, `From ${seconds(at)} s`),
      ` this run differs from ${base.head.label}${settingsThatDiffer(base, run)}. Here: ${here}. There: ${there}.`));
    else if (place > 0) card.append(h("p", { class: "small muted" }, run.differs || hides ? "As the first run until now." : "The same events as the first run."));
    grid.append(card);
  });
  return grid;
}

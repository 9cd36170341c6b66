// Several runs on one clock: a small stage for each, and the moment from which they differ.
import { type Difference, type Run, seconds, sentence, verdictOf } from "./contract";
import { h } from "./dom";
import { drawStage, firstInCommon, type Scene } from "./stage";

/** `, with p1 acks=all`: settings of this run that the other has not. */
function settingsThatDiffer(base: Run, run: Run): string {
  const here = [...run.head.built, run.head.era].filter((line) => ![...base.head.built, base.head.era].includes(line));
  return here.length ? `, with ${here.join("; ")}` : "";
}

/** place: number of the run     label: what it is called beside the others     differs: where it diverges from the first */
export interface Seat { place: number; run: Run; label: string; scene: Scene; differs: Difference | null }

export function comparePane(seats: Seat[], shown: number, width: number, hides: boolean, choose: (place: number) => void, seekTime: (at: number) => void): HTMLElement {
  const columns = width > 1180 ? Math.min(3, seats.length) : width > 760 ? Math.min(2, seats.length) : 1;
  const each = Math.floor((width - (columns + 1) * 10) / columns) - 18, base = seats[0]!.run;
  const scenes = seats.map(({ scene }) => ({ ...scene, compact: true, hides })), first = firstInCommon(scenes, each);
  const grid = h("div", { class: `compare columns-${columns}` });
  const haveTitles = new Set(seats.map(({ run: { head } }) => head.title)).size > 1;
  seats.forEach(({ place, run, label, scene, differs }, number) => {
    const now = hides ? Math.min(scene.now, run.tape.at[scene.cluster.place] ?? 0) : scene.now;
    const { kind, text } = verdictOf(run.head);
    // What a future differs from is not beside it where it stands first.
    const [at, here, there] = (number > 0 && differs) || [Infinity, "", ""];
    const note = now >= at ? h("p", { class: "small differs" }, h("button", { class: "plain", click: () => seekTime(at) }, `From ${seconds(at)} s`),
      ` this run differs from ${seats[0]!.label}${settingsThatDiffer(base, run)}. Here: ${here}. There: ${there}.`)
      : h("p", { class: "small muted" }, number > 0 && (differs || hides ? `As ${seats[0]!.label} until now.` : `The same events as ${seats[0]!.label}.`));
    grid.append(h("section", { class: place === shown ? "seat on" : "seat", "aria-label": label },
      h("header", {}, h("button", { class: "plain strong", click: () => choose(place) }, label), !hides && h("span", { class: `pill ${kind}` }, text),
        haveTitles && !hides && h("p", { class: "small seat-title" }, run.head.title)),
      note, drawStage(scenes[number]!, each, first), h("p", { class: "small" }, sentence(run.tape, scene.cluster.place))));
  });
  return grid;
}

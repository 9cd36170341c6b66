// The pane beside the stage: events with filters, why a record met its end, the verdict.
import { type Place, type Outcome, type Run, type Story, NOTHING, kindOf, lastUpTo, nameOf, ranges, seconds, sentence, verdictOf } from "./contract";
import { h } from "./dom";
import { isQuiet } from "./strip";

export const SIGNS: Record<string, string> = {
  fault: "\u26a1", undone: "\u21ba", isr: "\u25ce", elected: "\u265b", offline: "\u2205", truncated: "\u2702", lost: "\u2715", down: "\u2715",
  ended: "\u22a3", up: "\u21ba", refused: "\u25b2", note: "\u00b7", bad: "\u2715",
};
const SIGN_OF_KIND: Record<string, string> = {
  batch_appended: "+", record_acked: "\u2713", batch_sent: "\u2192", records_sent: "\u2192", record_sent: "\u2192", record_read: "\u25c9",
  high_watermark_advanced: "\u2248", high_watermark_learned: "\u2248", follower_fetched: "\u21e0", batch_refused: "!", record_failed: "!",
};
export const signOf = (run: Run, place: Place): string => SIGNS[run.tape.key[place] ?? ""] ?? SIGN_OF_KIND[kindOf(run.tape, place)] ?? "\u00b7";

export type Filter = "key" | "most" | "all";
export const FILTERS: [Filter, string][] = [["key", "Key moments"], ["most", "Without fetches"], ["all", "All"]];

export interface EventList { element: HTMLElement; show(run: Run, place: Place, limit: Place): void; filter: Filter; text: string; refilter(): void }

/** Of two lines of text: the theme and the screen say how large it is. */
const rowHeight = (box: HTMLElement): number => Math.ceil(2.5 * Number.parseFloat(getComputedStyle(box).fontSize) + 9);

/** Only the rows in sight are made: a run has up to 60,000 events. */
export function eventList(seek: (place: Place) => void): EventList {
  let run: Run | undefined, places: Place[] = [], current: Place = NOTHING, limit: Place = NOTHING, isDirty = true, rowPx = 1;
  const rows = h("div", { class: "rows" }), box = h("div", { class: "events", tabindex: 0, role: "listbox", "aria-label": "Events" }, rows);
  const list: EventList = {
    element: box, filter: "most", text: "",
    refilter: () => { isDirty = true; if (run) list.show(run, current, limit); },
    show(next, place, until) {
      if (run !== next || isDirty) {
        run = next;
        isDirty = false;
        const wanted = list.text.toLowerCase();
        places = next.tape.at.map((_, at) => at).filter((at) => {
          if (list.filter === "key" && !next.tape.key[at]) return false;
          if (list.filter === "most" && isQuiet(next, at)) return false;
          return !wanted || `${nameOf(next.tape, next.tape.node[at]!)} ${sentence(next.tape, at)}`.toLowerCase().includes(wanted);
        });
      }
      current = place;
      limit = until;
      rowPx = rowHeight(box);
      // Before it is scrolled: a list that is still empty stays at its top.
      rows.style.height = `${countOf() * rowPx}px`;
      const row = rowOf(place);
      const top = row * rowPx, height = box.clientHeight || 400;
      if (top < box.scrollTop + rowPx || top > box.scrollTop + height - 2 * rowPx) box.scrollTop = Math.max(0, top - height / 2);
      draw(row);
    },
  };
  /** The row of the last event at or before `place`. */
  const rowOf = (place: Place): number => Math.max(0, lastUpTo(places.length, place, (row) => places[row]!));
  /** Rows up to the limit. */
  const countOf = (): number => lastUpTo(places.length, limit, (row) => places[row]!) + 1;
  const draw = (row: number): void => {
    if (!run) return;
    const count = countOf();
    const first = Math.max(0, Math.floor(box.scrollTop / rowPx) - 4), inSight = Math.ceil((box.clientHeight || 400) / rowPx) + 8;
    rows.replaceChildren(...places.slice(first, Math.min(first + inSight, count)).map((place, offset) => {
      const isNow = first + offset === row && place <= current, key = run!.tape.key[place];
      const item = h("div", { class: `event${isNow ? " now" : ""}${place > current ? " future" : ""}${key ? ` key ${key}` : ""}`, role: "option", "aria-selected": isNow, title: sentence(run!.tape, place), click: () => seek(place) },
        h("span", { class: "time mono" }, seconds(run!.tape.at[place]!)), h("span", { class: "sign", "aria-hidden": "true" }, signOf(run!, place)), h("span", { class: "text" }, sentence(run!.tape, place)));
      item.style.height = `${rowPx}px`;
      item.style.top = `${(first + offset) * rowPx}px`;
      return item;
    }));
    if (!count) rows.replaceChildren(h("p", { class: "empty" }, "No event matches."));
  };
  box.addEventListener("scroll", () => draw(rowOf(current)));
  return list;
}

/** A record's path through the run: a story of Python's where there is one, else its own events. */
export function whyPane(run: Run, picked: Place, seek: (place: Place) => void, pick: (record: Place) => void): HTMLElement {
  const { tape, head, stories } = run;
  const record = picked >= 0 ? tape.records[picked]! : stories[0]?.record ?? "";
  const pane = h("div", { class: "pane why" });
  const chooser = h("input", { id: "record", list: "records", placeholder: "a record, such as r12", value: record, autocomplete: "off", change: (event: Event) => {
    const place = tape.records.indexOf((event.target as HTMLInputElement).value.trim());
    if (place >= 0) pick(place);
  } });
  pane.append(h("p", {}, h("label", { for: "record" }, "Record "), chooser, h("datalist", { id: "records" }, ...tape.records.slice(0, 2000).map((name) => h("option", { value: name })))));
  const bad = [...new Set([...head.findings.flatMap((finding) => finding.records), ...head.missing])];
  if (bad.length) pane.append(h("p", { class: "chips" }, ...bad.slice(0, 12).map((name) => h("button", { class: name === record ? "chip on" : "chip", click: () => pick(tape.records.indexOf(name)) }, name)), bad.length > 12 && `and ${bad.length - 12} more`));
  if (!record) return pane.append(h("p", { class: "muted" }, "Choose a record on the stage, or write its name.")), pane;
  const story = stories.find((one) => one.record === record);
  const outcomes = Object.hasOwn(run.what_if, record) ? run.what_if[record]! : [];
  pane.append(story ? told(story, seek) : passed(run, tape.records.indexOf(record), seek));
  if (outcomes.length) pane.append(playedAgain(outcomes));
  else if (story) pane.append(remedies("Would have saved it", story.would), remedies("Would not have saved it", story.would_not),
    h("p", { class: "small muted" }, `highwater explain RUN ${record} --what-if plays the run again with one thing changed; the next highwater view shows what it finds.`));
  return pane;
}

function told(story: Story, seek: (place: Place) => void): HTMLElement {
  const steps = story.moments.map(([place, at, text, decisive]) => h("li", { class: decisive ? "decisive" : "" },
    h("button", { class: "step", disabled: place < 0, click: () => seek(place) }, h("span", { class: "time mono" }, seconds(at)), h("span", {}, text))));
  const names = [...new Set(story.holdings.flatMap(([, brokers]) => Object.keys(brokers)))];
  const table = h("table", {}, h("caption", {}, "Where the record was"), h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "s"), ...names.map((name) => h("th", { scope: "col" }, name)), h("th", { scope: "col" }, "producer"))),
    h("tbody", {}, ...story.holdings.map(([at, brokers, producer]) => h("tr", {}, h("th", { scope: "row", class: "mono" }, seconds(at)), ...names.map((name) => h("td", {}, brokers[name] ?? "-")), h("td", {}, producer)))));
  return h("div", {}, h("p", { class: "ending" }, story.ending), h("ol", { class: "steps" }, ...steps), h("p", { class: "small muted" }, "\u25cf marks the decisive steps."), table);
}

const remedies = (title: string, texts: (string | Node)[]): Node | string =>
  texts.length ? h("div", {}, h("h2", {}, title), h("ul", {}, ...texts.map((text) => h("li", {}, text)))) : "";

/** Each outcome is a whole run of its own, which took the place of what the trace alone proves. */
function playedAgain(outcomes: Outcome[]): HTMLElement {
  const list = (saved: number): Node[] => outcomes.flatMap(([change, isSaved, text]) => isSaved === saved ? [h("span", {}, h("strong", {}, change), " ", text)] : []);
  return h("div", { class: "what-if" }, h("p", {}, `Played again ${outcomes.length} times with the same seed, one thing changed each time.`),
    remedies("\u2713 Saves it", list(1)), remedies("\u2715 Does not save it", list(0)));
}

function passed(run: Run, record: Place, seek: (place: Place) => void): HTMLElement {
  const { tape } = run, places: Place[] = [];
  if (record < 0) return h("p", { class: "muted" }, "No producer of this run has sent a record of this name.");
  tape.changes.forEach((changes, place) => {
    if (changes.some((change) => (change[0] === "record" && change[1] === record) || (change[0] === "append" && change[5].includes(record)) || (change[0] === "read" && change[4] === record))) places.push(place);
  });
  return h("ol", { class: "steps" }, ...places.slice(0, 60).map((place) => h("li", {}, h("button", { class: "step", click: () => seek(place) }, h("span", { class: "time mono" }, seconds(tape.at[place]!)), h("span", {}, sentence(tape, place))))));
}

export function verdictPane(runs: Run[], shown: number): HTMLElement {
  const run = runs[shown]!, { head } = run, { good, text } = verdictOf(head);
  const pane = h("div", { class: "pane" }, h("p", { class: good ? "ending good" : "ending" }, `${good ? "\u2713" : "\u2715"} ${text}`));
  for (const finding of head.findings) pane.append(h("p", {}, finding.sentence));
  if (head.missing.length) pane.append(h("p", {}, `Never arrived, and never promised: ${ranges(head.missing)}`));
  if (runs.length > 1) {
    const rows: [string, (head: Run["head"]) => string][] = [["sent", (one) => String(one.sent)], ["acked", (one) => String(one.acked)], ["acked, then lost", (one) => String(one.acked_and_lost)],
      ["never arrived", (one) => String(one.missing.length)], ["stored twice", (one) => String(one.duplicated.length)], ["verdict", (one) => verdictOf(one).text]];
    const owed = (one: Run["head"]) => one.lost.length - one.acked_and_lost;
    if (runs.some((one) => owed(one.head))) rows.splice(3, 0, ["lost, never acked", (one) => String(owed(one))]);
    pane.append(h("table", {}, h("caption", {}, "All runs of this page"), h("thead", {}, h("tr", {}, h("td", {}), ...runs.map((one) => h("th", { scope: "col" }, one.head.label)))),
      h("tbody", {}, ...rows.map(([name, value]) => h("tr", {}, h("th", { scope: "row" }, name), ...runs.map((one) => h("td", {}, value(one.head))))))));
  }
  pane.append(h("h2", {}, "The run"), h("ul", {}, ...head.built.map((line) => h("li", {}, line)), h("li", {}, `rules of ${head.era}, seed ${head.seed}`)));
  if (run.tape.left_out) pane.append(h("p", { class: "small" }, `${run.tape.left_out.toLocaleString("en")} events are not on this page: what the cluster keeps for itself, and, in a long run, those that change little. The trace has them all.`));
  pane.append(h("p", { class: "small muted" }, "Heartbeats and fetches without news are not in the trace, and so not drawn."));
  return pane;
}

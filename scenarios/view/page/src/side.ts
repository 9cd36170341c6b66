// The pane beside the stage: events with filters, why a record met its end, the verdict.
import { type Place, type Outcome, type Run, type Story, NOTHING, kindOf, lastUpTo, nameOf, ranges, seconds, sentence, verdictOf } from "./contract";
import { h, visible } from "./dom";
import { shortener } from "./names";
import { isQuiet } from "./strip";

export const SIGNS: Record<string, string> = {
  fault: "\u26a1", undone: "\u21ba", isr: "\u25ce", elected: "\u265b", offline: "\u2205", truncated: "\u2702", lost: "\u2715", down: "\u25bc",
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
    const shortened = shortener(run.tape.nodes.map(([name]) => name), run.tape.partitions);
    const first = Math.max(0, Math.floor(box.scrollTop / rowPx) - 4), inSight = Math.ceil((box.clientHeight || 400) / rowPx) + 8;
    rows.replaceChildren(...places.slice(first, Math.min(first + inSight, count)).map((place, offset) => {
      const isNow = first + offset === row && place <= current, key = run!.tape.key[place];
      const item = h("div", { class: `event${isNow ? " now" : ""}${place > current ? " future" : ""}${key ? ` key ${key}` : ""}`, role: "option", "aria-selected": isNow, title: sentence(run!.tape, place), click: () => seek(place) },
        h("span", { class: "time mono" }, seconds(run!.tape.at[place]!)), h("span", { class: "sign", "aria-hidden": "true" }, signOf(run!, place)), h("span", { class: "text" }, shortened(sentence(run!.tape, place), run!.tape.part[place]!)));
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
  const pane = h("div", { class: "pane why" }), says = h("p", { class: "small bad", role: "alert" });
  const chooser = h("input", { id: "record", list: "records", placeholder: "a record, such as r12", value: record, autocomplete: "off", input: () => says.replaceChildren(), change: () => {
    const wanted = chooser.value.trim(), place = tape.records.indexOf(wanted);
    if (place >= 0) pick(place);
    else if (wanted) says.textContent = visible(whyNot(run, wanted));
  } });
  pane.append(h("p", {}, h("label", { for: "record" }, "Record "), chooser, h("datalist", { id: "records" }, ...tape.records.slice(0, 2000).map((name) => h("option", { value: name })))), says);
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

/** Why there is no story of what was asked for, and what to ask instead. */
function whyNot({ tape }: Run, wanted: string): string {
  if (tape.partitions.includes(wanted)) return `${wanted} is a partition: highwater explain RUN ${wanted} tells of it. Here, ask for a record, such as ${tape.records[0] ?? "r1"}.`;
  const digits = /\d+$/.exec(wanted)?.[0], near = tape.records.find((name) => /\d+$/.exec(name)?.[0] === digits);
  return `This run has no record ${wanted}.${digits && near ? ` Do you mean ${near}?` : ""}`;
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

const moment = (at: number, seekTime: (at: number) => void): HTMLElement =>
  h("button", { class: "plain mono", "aria-label": `Go to ${seconds(at)} s`, click: () => seekTime(at) }, `${seconds(at)} s`);

/** Which of the usual alerts on Kafka's metrics fire, and whether before the first loss. */
function dashboard(alerts: NonNullable<Run["head"]["alerts"]>, lost: number | null, seekTime: (at: number) => void): HTMLElement[] {
  const lines = alerts.map(([name, fired, longest, lasts]) => {
    const rule = `for: ${lasts / 1e6}s`;
    if (fired === null) return h("li", {}, `${name}: never`, longest > 0 && `; its condition held for ${seconds(longest)} s (${rule})`);
    return h("li", {}, `${name}: `, moment(fired, seekTime), " (true since ", moment(fired - lasts, seekTime), `, ${rule})`, lost !== null && `, ${seconds(Math.abs(fired - lost))} s ${fired < lost ? "before" : "after"} the first loss`);
  });
  return [h("h2", {}, "When the usual alerts fire"), h("ul", {}, ...lines)];
}

export function verdictPane(run: Run, runs: Run[], seekTime: (at: number) => void): HTMLElement {
  const { head } = run, { kind, text } = verdictOf(head);
  const pane = h("div", { class: "pane" }, h("p", { class: `ending ${kind}` }, text));
  for (const finding of head.findings) pane.append(h("p", {}, finding.sentence));
  if (head.waits.length) pane.append(h("h2", {}, "Nothing written or read"), h("ul", {}, ...head.waits.map(([from, why]) => h("li", {}, moment(from, seekTime), ` ${why}`))));
  if (head.missing.length) pane.append(h("p", {}, `Never arrived, and never promised: ${ranges(head.missing)}`));
  if (runs.length > 1) {
    const columns: [string, (head: Run["head"]) => string][] = [["verdict", (one) => verdictOf(one).text], ["sent", (one) => String(one.sent)], ["acked", (one) => String(one.acked)], ["acked, then lost", (one) => String(one.acked_and_lost)],
      ["missing", (one) => String(one.missing.length)], ["stored twice", (one) => String(one.duplicated.length)]];
    const owed = (one: Run["head"]) => one.lost.length - one.acked_and_lost;
    if (runs.some((one) => owed(one.head))) columns.splice(4, 0, ["lost, never acked", (one) => String(owed(one))]);
    pane.append(h("div", { class: "all-runs", tabindex: 0, role: "region", "aria-label": "All runs" }, h("table", {}, h("caption", {}, "All runs of this page"),
      h("thead", {}, h("tr", {}, h("td", {}), ...columns.map(([name]) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, ...runs.map((one) => h("tr", {}, h("th", { scope: "row" }, one.head.label), ...columns.map(([, value]) => h("td", {}, value(one.head)))))))));
  }
  if (head.alerts?.length) pane.append(...dashboard(head.alerts, head.lost_us ?? null, seekTime));
  pane.append(h("h2", {}, "The run"), h("ul", {}, ...head.built.map((line) => h("li", {}, line)), h("li", {}, `rules of ${head.era}, seed ${head.seed}`), head.trace_sha256 !== "" && h("li", { title: head.trace_sha256 }, "trace ", h("span", { class: "mono" }, `${head.trace_sha256.slice(0, 8)}\u2026`))));
  if (run.tape.left_out) pane.append(h("p", { class: "small" }, `${run.tape.left_out.toLocaleString("en")} events are not on this page: what the cluster keeps for itself, and, in a long run, those that change little. The trace has them all.`));
  pane.append(h("p", { class: "small muted" }, "Heartbeats and fetches without news are not in the trace, and so not drawn."));
  return pane;
}

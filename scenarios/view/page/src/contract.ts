// What Python writes into the page (scenarios/view/tape.py, page.py), and how it is read.

/** A place in one of the tape's lists, or NOTHING. */
export type Place = number;
export const NOTHING = -1;

/** Each change begins with the name of its kind. */
export type Change =
  | ["node", Place, number]
  | ["part", Place, Place, number, Place[], Place[], number, Place[]]
  | ["replica", Place, Place, number, number, number, number, number]
  | ["append", Place, Place, number, number, Place[], number?]
  | ["record", Place, number, Place, Place]
  | ["read", Place, Place, number, Place]
  | ["gone", Place]
  | ["txn", Place, Place, number, number, number, number]
  | ["marker", Place, number, number, number, number, number]
  | ["stable", Place, number]
  | ["group", Place, Place, number, number]
  | ["own", Place, Place, Place, number];

/** trace_sha256: as in summary.json, empty where there is none     sampled: how often high watermarks were, in words; "" where every step of them is known */
export interface Head {
  scenario: string; label: string; title: string; question: string; seed: number; trace_sha256: string; era: string; live: boolean; sampled: string;
  built: string[]; verdict: string[]; acked: number; sent: number;
  waits: [from: number, why: string][];
  /** by broker, of those that have one */
  racks: Record<string, string>;
  findings: { kind: string; sentence: string; records: string[]; partition: string }[];
  lost: string[]; lost_in_words: string; acked_and_lost: number; missing: string[]; duplicated: string[];
  /** the usual alerts on Kafka's metrics, with how long a condition has to hold, and the time of the first loss */
  alerts?: [name: string, fired: number | null, longest: number, lasts: number][]; lost_us?: number | null;
  /** of a cluster that runs: acked records that a new leader does not have */
  gone?: number;
}

/** Lists of one item an event, and the names that they refer to by place. Times are microseconds. brokers: in the order of every picture */
export interface Tape {
  nodes: [string, string][]; brokers: [node: Place, mark: number][]; partitions: string[]; records: string[]; texts: string[]; kinds: string[];
  faults: [verb: string, text: string, targets: string[], from: number, until: number | null][];
  at: number[]; kind: Place[]; node: Place[]; part: Place[]; text: Place[]; sender: Place[]; key: string[]; short: Place[];
  changes: Change[][]; left_out: number; end_us: number;
  /** Only of a run that has them: transactional.ids; groups, the partitions their members have had, the members with their client.ids */
  txns?: string[]; groups?: string[]; assigned?: string[]; members?: [id: string, client: string][];
}

export interface Story {
  record: string; part: string; fate: string; ending: string; would: string[]; would_not: string[];
  moments: [place: Place, at: number, sentence: string, decisive: number][];
  holdings: [at: number, brokers: Record<string, string>, producer: string][];
}

/** What became of a record when the run was played again with one thing changed. */
export type Outcome = [change: string, saved: number, sentence: string];

/** known: the place from which on the run shows the answer     about: the partition that it is about, or NOTHING */
export type Question = [before: Place, ask: string, options: string[], answer: number, because: string, known: Place, about: Place];

/** differs: the first event that this run and the first run of the page do not share     what_if: by record */
export interface Run { head: Head; tape: Tape; opens_at: Place; stories: Story[]; questions: Question[]; what_if: Record<string, Outcome[]>; differs: Difference | null }

/** Time, sentence here, sentence in the page's first run. */
export type Difference = [at: number, here: string, there: string];

/** Colour on a light ground, colour on a dark ground, dash. */
export type BrokerMark = [light: string, dark: string, dash: string];

/** What can be done to a node, to two (with a space between), to a partition, or to the network (scenarios/play/choices.py). whyNot: empty where it can be done now */
export type Choice = [target: string, label: string, words: string[], sentence: string, whyNot: string];

/** One of the futures of a scenario (scenarios/play/futures.py). lasts: the `for` of a step, empty without one, null where it can have none     needless: why a step had no effect, empty where it had one */
export interface Future { number: number; parent: number | null; name: string; at_us: number; steps: [at: number | null, sentence: string, lasts: string | null, needless: string][]; text: string }

/** first: the scenario as written     follows: it shows what other pages show, and changes nothing */
export interface Play { first: Future; follows: boolean }

/** live: of a cluster that is running; its tape comes in parts     predicts: the page begins by asking     play: the scenario can be broken here */
export interface Data { brokers: BrokerMark[]; runs: Run[]; live?: Head; predicts?: boolean; play?: Play }

/** The next events of a cluster that is running, and the names that they use for the first time. begins: a new tape     gone: as in Head     lost: the records that are gone, if they are others than before */
export interface Part extends Tape { begins: boolean; gone: number; lost?: string[] }

const emptyTape = (): Tape => ({ nodes: [], brokers: [], partitions: [], records: [], texts: [], kinds: [], faults: [], at: [], kind: [], node: [], part: [], text: [], sender: [], key: [], short: [], changes: [], left_out: 0, end_us: 0 });

export const liveRun = (head: Head): Run => ({ head, tape: emptyTape(), opens_at: NOTHING, stories: [], questions: [], what_if: {}, differs: null });

export function extend(tape: Tape, part: Part): void {
  const longer = ["partitions", "records", "texts", "kinds", "at", "kind", "node", "part", "text", "sender", "key", "short", "changes"] as const;
  for (const name of longer) (tape[name] as unknown[]).push(...part[name]);
  tape.nodes = part.nodes;
  tape.brokers = part.brokers;
  tape.faults = part.faults;
  for (const name of ["txns", "groups", "assigned", "members"] as const) if (part[name]) (tape[name] as unknown) = part[name];
  tape.left_out = part.left_out;
  tape.end_us = part.end_us;
}

/** What is inside the page. Times on the tape are written as differences. */
export async function readData(packed: string): Promise<Data> {
  const bytes = Uint8Array.from(atob(packed.trim()), (letter) => letter.charCodeAt(0));
  const data = JSON.parse(await unzipped(bytes)) as Data;
  data.runs.forEach(opened);
  return data;
}

/** A run with its times in full. */
export function opened(run: Run): Run {
  let at = 0;
  run.tape.at = run.tape.at.map((step) => (at += step));
  return run;
}

async function unzipped(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  const stream = new DecompressionStream("gzip"), writer = stream.writable.getWriter(), reader = stream.readable.getReader();
  const written = writer.write(bytes).then(() => writer.close());
  const decoder = new TextDecoder();
  let text = "";
  for (let part = await reader.read(); !part.done; part = await reader.read()) text += decoder.decode(part.value, { stream: true });
  await written;
  return text + decoder.decode();
}

/** The last of `count` ascending values that is at most `limit`, NOTHING before the first. */
export function lastUpTo(count: number, limit: number, valueOf: (place: Place) => number): Place {
  let low = 0, high = count;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (valueOf(middle) <= limit) low = middle + 1; else high = middle;
  }
  return low - 1;
}

/** The last event at or before a time, NOTHING before the first. */
export const placeAt = (tape: Tape, time: number): Place => lastUpTo(tape.at.length, time, (place) => tape.at[place]!);

export const brokersOf = (tape: Tape): Place[] => tape.brokers.map(([node]) => node);

export const sentence = (tape: Tape, place: Place): string => tape.texts[tape.text[place] ?? NOTHING] ?? "The run begins";
export const nameOf = (tape: Tape, node: Place): string => tape.nodes[node]?.[0] ?? "";
export const kindOf = (tape: Tape, place: Place): string => tape.kinds[tape.kind[place] ?? NOTHING] ?? "";

const UNITS: Record<string, number> = { us: 1, ms: 1e3, s: 1e6, m: 6e7, min: 6e7, h: 3.6e9 };

/** Of `10.3`, `10.3 s`, `300ms`, `1 m`; NaN of anything else. */
export function microsecondsOf(text: string): number {
  const [, number, unit = "s"] = /^\s*(\d+\.?\d*|\.\d+)\s*([a-z]+)?\s*$/.exec(text) ?? [];
  return Math.round(Number(number) * (UNITS[unit] ?? NaN));
}

/** `10.302` */
export const seconds = (at: number): string => (at / 1e6).toFixed(3);

/** r1, r2, r3, r7 -> `r1..r3, r7` */
export function ranges(names: readonly string[]): string {
  const found: { prefix: string; first: number; last: number; text: string }[] = [];
  for (const name of names) {
    const match = /^(.*?)(\d{1,9})$/.exec(name);
    const last = found.at(-1);
    const number = match ? Number(match[2]) : NOTHING;
    if (match && last && last.prefix === match[1] && last.last + 1 === number && String(number) === match[2]) last.last = number;
    else found.push({ prefix: match?.[1] ?? name, first: number, last: number, text: name });
  }
  return found.map((one) => (one.first === one.last ? one.text : `${one.text}..${one.prefix}${one.last}`)).join(", ");
}

/** Instead of a verdict, while the cluster runs. */
const RUNNING = "running";

/** kind: `good`, `bad` where a promise was broken, `unpromised` where records are gone that nothing was promised of     text: with its sign */
export interface Verdict { kind: "good" | "bad" | "unpromised"; text: string }

export function verdictOf(head: Head): Verdict {
  const good = (text: string): Verdict => ({ kind: "good", text: `\u2713 ${text}` }), bad = (text: string): Verdict => ({ kind: "bad", text: `\u2715 ${text}` });
  if (head.verdict[0] === RUNNING) return head.gone ? bad(`${head.gone} acked record${head.gone === 1 ? "" : "s"} gone`) : good("running");
  if (head.lost.length) return bad(head.lost_in_words);
  const unseen = head.findings.flatMap(({ kind, records }) => (kind === "unseen" ? records : [])).length;
  const other = head.verdict.filter((word) => word !== "ok").map((word) => (word === "unseen" ? `${unseen} acked record${unseen === 1 ? "" : "s"} that no consumer gets` : word));
  if (other.length) return bad(other.join(", "));
  if (head.missing.length) return { kind: "unpromised", text: `\u25cb ${head.missing.length} missing` };
  return good(head.acked ? "nothing lost" : "nothing promised");
}

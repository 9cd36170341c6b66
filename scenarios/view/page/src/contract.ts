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

/** sampled: how often high watermarks were, in words; "" where every step of them is known */
export interface Head {
  scenario: string; label: string; title: string; question: string; seed: number; era: string; live: boolean; sampled: string;
  built: string[]; verdict: string[]; acked: number; sent: number;
  findings: { kind: string; sentence: string; records: string[]; partition: string }[];
  lost: string[]; lost_in_words: string; acked_and_lost: number; missing: string[]; duplicated: string[];
}

/** Lists of one item an event, and the names that they refer to by place. Times are microseconds. brokers: in the order of every picture */
export interface Tape {
  nodes: [string, string][]; brokers: [node: Place, mark: number][]; partitions: string[]; records: string[]; texts: string[]; kinds: string[];
  faults: [verb: string, text: string, targets: string[], from: number, until: number | null][];
  at: number[]; kind: Place[]; node: Place[]; part: Place[]; text: Place[]; sender: Place[]; key: string[];
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

export type Question = [before: Place, ask: string, options: string[], answer: number, because: string];

/** differs: the first event that this run and the first run of the page do not share     what_if: by record */
export interface Run { head: Head; tape: Tape; opens_at: Place; stories: Story[]; questions: Question[]; what_if: Record<string, Outcome[]>; differs: Difference | null }

/** Time, sentence here, sentence in the page's first run. */
export type Difference = [at: number, here: string, there: string];

/** Colour on a light ground, colour on a dark ground, dash. */
export type BrokerMark = [light: string, dark: string, dash: string];

/** live: of a cluster that is running; its tape comes in parts     predicts: the page begins by asking */
export interface Data { brokers: BrokerMark[]; runs: Run[]; live?: Head; predicts?: boolean }

/** The next events of a cluster that is running, and the names that they use for the first time. begins: a new tape */
export interface Part extends Tape { begins: boolean }

const emptyTape = (): Tape => ({ nodes: [], brokers: [], partitions: [], records: [], texts: [], kinds: [], faults: [], at: [], kind: [], node: [], part: [], text: [], sender: [], key: [], changes: [], left_out: 0, end_us: 0 });

export const liveRun = (head: Head): Run => ({ head, tape: emptyTape(), opens_at: NOTHING, stories: [], questions: [], what_if: {}, differs: null });

export function extend(tape: Tape, part: Part): void {
  const longer = ["partitions", "records", "texts", "kinds", "at", "kind", "node", "part", "text", "sender", "key", "changes"] as const;
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
  for (const { tape } of data.runs) {
    let at = 0;
    tape.at = tape.at.map((step) => (at += step));
  }
  return data;
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

export function verdictOf(head: Head): { good: boolean; text: string } {
  if (head.verdict[0] === RUNNING) return { good: true, text: "running" };
  if (head.lost.length) return { good: false, text: head.lost_in_words };
  const other = head.verdict.filter((word) => word !== "ok");
  if (other.length) return { good: false, text: other.join(", ") };
  if (head.missing.length) return { good: false, text: `${head.missing.length} never arrived` };
  return { good: true, text: head.acked ? "nothing lost" : "nothing promised" };
}

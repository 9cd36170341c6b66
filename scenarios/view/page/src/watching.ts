// What the reader looks at: which run, which partition, which moment, which stretch of time; and every way to move on from there.
import { type Difference, type Part, type Place, type Run, NOTHING, extend, liveRun, placeAt, seconds } from "./contract";
import { Prediction } from "./predict";
import { type Moment, Scenes } from "./scenes";
import type { Scene } from "./stage";
import { openingWindow, type Window } from "./strip";

export type Mode = "one" | "compare" | "partitions";
export type Tab = "events" | "why" | "verdict" | "coordinators";

/** So much of a running cluster's time is on the strip. */
const LIVE_WINDOW_US = 30_000_000;

/** changed: something else is to be drawn     moved: the reader stands at another moment */
export interface Listener { changed(): void; moved(): void }

export class Watching {
  run: Run;
  /** number of the run */
  shown = 0;
  partition: Place;
  place: Place = NOTHING;
  now = 0;
  mode: Mode;
  tab: Tab = "events";
  picked: Place = NOTHING;
  window: Window;
  /** numbers of the runs that stand side by side */
  compared: number[];
  /** what each of them is called there, where that is not its own label */
  labels: string[] = [];
  /** where the second of two runs diverges from the first, if that is not what the run itself says */
  differs: Difference | null | undefined;
  /** numbers of the runs that were deleted: their place is kept, for they may come back */
  readonly deleted = new Set<number>();
  readonly prediction: Prediction;
  readonly scenes: Scenes;

  constructor(readonly runs: Run[], private readonly listener: Listener) {
    this.run = runs[0]!;
    this.prediction = new Prediction(runs);
    this.scenes = new Scenes(runs);
    this.window = openingWindow(this.run);
    this.partition = this.partitionToShow();
    this.compared = runs.map((_, place) => place);
    this.mode = runs.length > 1 ? "compare" : "one";
  }

  /** One more run; its number. */
  add(run: Run): number {
    this.runs.push(run);
    this.scenes.add();
    return this.runs.length - 1;
  }

  /** Numbers of the runs that can be chosen. */
  get numbers(): number[] { return [...this.runs.keys()].filter((number) => !this.deleted.has(number)); }

  /** That of the event the page opens on, else the first with a finding, else the first with a record. */
  private partitionToShow(): Place {
    const { tape, head, opens_at } = this.run, named = tape.part[opens_at] ?? NOTHING;
    if (named >= 0) return named;
    const found = tape.partitions.indexOf(head.findings[0]?.partition ?? "");
    if (found >= 0) return found;
    for (const changes of tape.changes) for (const change of changes) if (change[0] === "append") return change[1];
    return 0;
  }

  /** The last event that may be shown now. */
  get limit(): Place { return this.prediction.barrier(this.run); }

  get hides(): boolean { return this.prediction.isOn && !this.runs.every((run) => this.prediction.isOver(run)); }

  scene(number: number): Scene {
    const limits = this.runs.map((run) => this.prediction.barrier(run));
    const moment: Moment = { run: this.shown, partition: this.partition, place: this.place, now: this.now, picked: this.picked, hides: this.hides, limits };
    return this.scenes.scene(number, moment);
  }

  // ------------------------------------------------------------------------------------------------------- moving

  seek(place: Place): void {
    this.place = Math.max(NOTHING, Math.min(place, this.limit));
    this.now = this.run.tape.at[this.place] ?? 0;
    this.keepInSight();
    this.moved();
  }

  seekTime(at: number): void {
    const now = Math.max(0, Math.min(at, this.run.tape.end_us)), place = placeAt(this.run.tape, now);
    this.place = Math.min(place, this.limit);
    this.now = place > this.limit ? this.run.tape.at[this.place] ?? 0 : now;
    this.moved();
  }

  /** To a time that may be out of sight. */
  goTo(at: number): void {
    this.seekTime(at);
    this.keepInSight();
  }

  seekKeyMoment(by: number): void {
    const { key, at } = this.run.tape;
    for (let place = this.place + by; place >= 0 && place < at.length; place += by) if (key[place]) return this.seek(place);
    this.seek(by < 0 ? NOTHING : at.length - 1);
  }

  get isAtEnd(): boolean { return this.place >= this.run.tape.at.length - 1; }

  private moved(): void {
    const about = this.place >= this.limit ? this.prediction.open(this.run, this.place)?.question[6] ?? NOTHING : NOTHING;
    if (about >= 0) this.partition = about;
    this.listener.changed();
    this.listener.moved();
  }

  private keepInSight(): void {
    const { from, to } = this.window, length = to - from;
    if (this.now >= from && this.now <= to) return;
    this.window = clamp({ from: this.now - length / 2, to: this.now + length / 2 }, this.run.tape.end_us);
  }

  zoomTo(from: number, to: number): void {
    this.window = clamp({ from, to: Math.max(to, from + 200) }, this.run.tape.end_us);
    this.listener.changed();
  }

  zoom(factor: number, around = this.now): void {
    const { from, to } = this.window, center = Math.min(Math.max(around, from), to);
    this.zoomTo(center - (center - from) * factor, center + (to - center) * factor);
  }

  pan(part: number): void {
    const { from, to } = this.window, by = (to - from) * part;
    this.zoomTo(from + by, to + by);
  }

  // ------------------------------------------------------------------------------------------------------ choosing

  chooseRun(place: number): void {
    if (!this.numbers.includes(place) || place === this.shown) return;
    const name = this.run.tape.partitions[this.partition], record = this.run.tape.records[this.picked];
    this.shown = place;
    this.run = this.runs[place]!;
    this.partition = Math.max(0, this.run.tape.partitions.indexOf(name ?? ""));
    this.picked = record === undefined ? NOTHING : this.run.tape.records.indexOf(record);
    this.seekTime(this.now);
  }

  choosePartition(partition: Place): void {
    this.partition = partition;
    this.setMode("one");
  }

  /** To what another page shows. */
  show(run: Place, partition: Place, place: Place, now: number, mode: Mode): void {
    this.chooseRun(run);
    this.partition = partition;
    this.mode = mode;
    this.place = Math.min(place, this.limit);
    this.now = now;
    this.keepInSight();
    this.moved();
  }

  setMode(mode: Mode): void {
    this.mode = mode;
    this.listener.changed();
  }

  /** The mode, or back from it to one run. */
  switchMode(mode: Mode): void {
    if (mode === "compare" ? this.compared.length > 1 : this.run.head.live || this.run.tape.partitions.length > 1) this.setMode(this.mode === mode ? "one" : mode);
  }

  setTab(tab: Tab): void {
    this.tab = tab;
    this.listener.changed();
  }

  pick(record: Place): void {
    if (this.prediction.isOn) return;
    this.picked = record;
    this.setTab("why");
  }

  /** Begins to ask, or stops. */
  predict(): void {
    if (this.prediction.isOn) {
      this.prediction.isOn = false;
      return this.listener.changed();
    }
    this.prediction.start();
    this.mode = "one";
    this.tab = "events";
    this.picked = NOTHING;
    this.window = { from: 0, to: this.run.tape.end_us };
    this.seek(this.limit);
  }

  // ---------------------------------------------------------------------------------------------- links to a moment

  link(): string {
    return `#t=${seconds(this.now)}&e=${this.place}&r=${this.shown}&p=${this.partition}${this.mode === "compare" ? "&c=1" : ""}`;
  }

  /** To the moment that a link names; without one, to the one the page opens on. */
  follow(link: string): void {
    const wanted = new URLSearchParams(link.slice(1)), number = (name: string): number => (wanted.get(name)?.match(/^\d{1,9}(\.\d{1,6})?$/) ? Number(wanted.get(name)) : NOTHING);
    if (number("r") >= 0) {
      this.mode = wanted.has("c") && this.runs.length > 1 ? "compare" : "one";
      this.chooseRun(number("r"));
    }
    if (this.run.tape.partitions[number("p")] !== undefined) this.partition = number("p");
    if (this.run.tape.at[number("e")] !== undefined) this.seek(number("e"));
    else if (number("t") >= 0) this.seekTime(number("t") * 1e6);
    else if (this.place === NOTHING) this.seek(this.run.opens_at);
    this.listener.changed();
  }

  // ------------------------------------------------------------------------------------------- a cluster that runs

  /** Goes on with a part of the tape; who stood at its end, or has not seen this tape before, goes with it. */
  grow(part: Part, isPlaying: boolean): void {
    const follows = part.begins || this.isAtEnd;
    if (part.begins) this.beginAgain();
    extend(this.run.tape, part);
    this.run.head.gone = part.gone;
    if (part.lost) this.run.head.lost = part.lost;
    this.scenes.grow(part.begins);
    if (follows && !isPlaying) {
      const { from, to } = this.window, end = this.run.tape.end_us, length = Math.min(to - from, LIVE_WINDOW_US);
      this.window = { from: Math.max(0, end - length), to: Math.max(end, length) };
      this.place = this.run.tape.at.length - 1;
      this.now = end;
    }
    this.listener.changed();
  }

  private beginAgain(): void {
    this.run = liveRun(this.run.head);
    this.runs[0] = this.run;
    this.window = { from: 0, to: LIVE_WINDOW_US };
    this.place = this.picked = NOTHING;
  }
}

function clamp({ from, to }: Window, end: number): Window {
  const length = Math.min(to - from, Math.max(end, 1)), start = Math.max(0, Math.min(from, end - length));
  return { from: start, to: start + length };
}

// The player: one moment, one run, one partition, and everything on the page drawn from these.
import { comparePane, type Seat } from "./compare";
import { type Head, type Part, type Place, type Run, NOTHING, extend, liveRun, nameOf, placeAt, readData, seconds, sentence, verdictOf } from "./contract";
import { h, visible } from "./dom";
import { Cluster } from "./fold";
import { type Overview, overviewPane } from "./overview";
import { setMarks } from "./marks";
import { Prediction } from "./predict";
import { type Series, type StandingsBy, seriesOf, standingsOf } from "./series";
import { FILTERS, eventList, signOf, verdictPane, whyPane } from "./side";
import { describe, drawStage, legend, type Scene } from "./stage";
import { drawStrip, openingWindow, playhead, timeAt, type Window, xOf } from "./strip";

type Mode = "one" | "compare" | "partitions";
type Tab = "events" | "why" | "verdict";
const TABS: [Tab, string][] = [["events", "Events"], ["why", "Why?"], ["verdict", "Verdict"]];
const THEMES = ["light", "dark", "projector"] as const;
/** Virtual seconds for each second of watching; 0: one event after the other */
const SPEEDS: [number, string][] = [[0, "event by event"], [0.001, "1/1000"], [0.01, "1/100"], [0.1, "1/10"], [1, "real time"], [10, "10 times"]];

/** So much of a running cluster's time is on the strip. */
const LIVE_WINDOW_US = 30_000_000;

class Player {
  private run: Run;
  private shown = 0;
  private partition: Place = 0;
  private place: Place = NOTHING;
  private now = 0;
  private mode: Mode = "one";
  private tab: Tab = "events";
  private picked: Place = NOTHING;
  private window: Window;
  private speed = 0;
  private playing = 0;
  private theme = 0;
  private readonly clusters: Cluster[];
  private readonly seriesBy = new Map<string, Series>();
  private readonly standingsBy = new Map<number, StandingsBy>();
  private overview: Overview | undefined;
  private readonly prediction: Prediction;
  private stripKey = "";
  private chipsKey = "";
  private isDrawing = false;

  private readonly title = h("h1");
  private readonly bar = h("p", { class: "sentence" });
  private readonly clock = h("span", { class: "clock mono" });
  private readonly live = h("p", { class: "unseen", role: "status" });
  private readonly stage = h("div", { class: "stage-box" });
  private readonly columns = h("div", { class: "columns" });
  private readonly strip = h("div", { class: "strip-box", tabindex: 0, role: "slider", "aria-label": "Time", "aria-orientation": "horizontal" });
  private readonly chips = h("div", { class: "chips moments", role: "group", "aria-label": "Key moments" });
  private readonly tabs = h("div", { class: "tabs", role: "tablist", "aria-label": "About the run" });
  private readonly sideBody = h("div", { class: "side-body", role: "tabpanel", id: "side-body", tabindex: 0 });
  private readonly runButtons = h("div", { class: "runs", role: "group", "aria-label": "Runs" });
  private readonly playButton = h("button", { class: "primary play", click: () => this.toggle() }, "\u25b6");
  private readonly ask = h("div", { class: "ask" });
  private readonly partitions = h("select", { "aria-label": "Partition", change: (event: Event) => this.choosePartition(Number((event.target as HTMLSelectElement).value)) });
  private readonly help = h("dialog", { "aria-label": "Keys" });
  private readonly events = eventList((place) => this.seek(place));
  private readonly filters = h("div", { class: "filters" });
  private readonly buttons = new Map<string, HTMLButtonElement>();
  private why: { key: string; element: HTMLElement } | undefined;

  constructor(private readonly runs: Run[], app: HTMLElement) {
    this.run = runs[0]!;
    this.clusters = runs.map((run) => new Cluster(run.tape));
    this.prediction = new Prediction(runs);
    this.window = openingWindow(this.run);
    this.partition = this.partitionToShow();
    this.build(app);
    if (runs.length > 1) this.setMode("compare");
    this.readPermalink();
    addEventListener("hashchange", () => this.readPermalink());
    addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(app);
    matchMedia("(prefers-color-scheme: dark)").matches && this.setTheme(1);
    this.draw();
  }

  /** That of the event the page opens on, else the first with a finding. */
  private partitionToShow(): Place {
    const { tape, head, opens_at } = this.run, named = tape.part[opens_at] ?? NOTHING;
    if (named >= 0) return named;
    return Math.max(0, tape.partitions.indexOf(head.findings[0]?.partition ?? ""));
  }

  // ------------------------------------------------------------------------------------------- a cluster that runs

  /** Goes on with a part of the tape; at its end, the page follows. */
  grow(part: Part): void {
    const follows = part.begins || this.place >= this.run.tape.at.length - 1;
    if (part.begins) this.beginAgain();
    extend(this.run.tape, part);
    this.clusters[0]!.grow();
    this.seriesBy.clear();
    this.standingsBy.clear();
    this.stripKey = "";
    this.events.refilter();
    this.listPartitions();
    if (!follows || this.playing) return this.draw();
    const { from, to } = this.window, end = this.run.tape.end_us, length = Math.min(to - from, LIVE_WINDOW_US);
    this.window = { from: Math.max(0, end - length), to: Math.max(end, length) };
    this.place = this.run.tape.at.length - 1;
    this.now = end;
    this.draw();
  }

  private beginAgain(): void {
    this.run = liveRun(this.run.head);
    this.runs[0] = this.run;
    this.clusters[0] = new Cluster(this.run.tape);
    this.window = { from: 0, to: LIVE_WINDOW_US };
    this.place = this.picked = NOTHING;
    this.why = undefined;
  }

  lost(isGone: boolean): void {
    this.title.dataset["state"] = isGone ? "the cluster does not answer" : "";
    this.draw();
  }

  private listPartitions(): void {
    const { partitions } = this.run.tape;
    if (this.partitions.length > partitions.length) this.partitions.replaceChildren();
    for (let place = this.partitions.length; place < partitions.length; place += 1) this.partitions.append(h("option", { value: place }, partitions[place]));
  }

  // ---------------------------------------------------------------------------------------------------- the page

  private build(app: HTMLElement): void {
    const { head } = this.run, action = (id: string, text: string, key: string, act: () => void): HTMLButtonElement => {
      const made = h("button", { click: act, "aria-pressed": "false" }, text, h("kbd", {}, key));
      this.buttons.set(id, made);
      return made;
    };
    const header = h("header", { class: "top" }, h("strong", { class: "brand" }, "highwater"), h("div", { class: "titles" }, this.title, h("p", { class: "small muted" }, [head.question, ...head.built, head.era, `seed ${head.seed}`].filter(Boolean).join("  \u00b7  "))),
      this.runButtons, h("div", { class: "actions" }, this.runs.length > 1 && action("compare", "Compare", "c", () => this.setMode(this.mode === "compare" ? "one" : "compare")),
        (head.live || this.run.tape.partitions.length > 1) && action("partitions", "Partitions", "o", () => this.setMode(this.mode === "partitions" ? "one" : "partitions")),
        this.runs.some((run) => run.questions.length) && action("predict", "Predict", "h", () => this.predict()),
        action("link", "Link", "l", () => this.copyLink()), action("theme", "Theme", "t", () => this.setTheme(this.theme + 1)), action("help", "Keys", "?", () => this.help.showModal())));
    this.listPartitions();
    const control = (text: string, label: string, act: () => void): HTMLElement => h("button", { "aria-label": label, title: label, click: act }, text);
    const speed = h("select", { "aria-label": "Speed", change: (event: Event) => { this.speed = Number((event.target as HTMLSelectElement).value); } }, ...SPEEDS.map(([value, text]) => h("option", { value }, text)));
    const transport = h("div", { class: "transport" }, control("|\u2039", "Key moment before (Page Up)", () => this.keyMoment(-1)), control("\u2039", "Event before (left arrow)", () => this.step(-1)), this.playButton,
      control("\u203a", "Next event (right arrow)", () => this.step(1)), control("\u203a|", "Next key moment (Page Down)", () => this.keyMoment(1)), speed, (head.live || this.run.tape.partitions.length > 1) && this.partitions, this.chips);
    const main = h("main", {}, h("div", { class: "now-bar" }, this.clock, this.bar), this.live, this.columns, this.ask, transport, this.strip);
    this.columns.append(h("div", { class: "stage-column" }, this.stage, legend()), h("section", { class: "side", "aria-label": "About the run" }, this.tabs, this.sideBody));
    app.replaceChildren(header, main, this.help);
    this.buildHelp();
    this.buildSide();
    this.listenToStrip();
    this.stage.addEventListener("click", (event) => {
      const record = (event.target as Element).closest("[data-record]")?.getAttribute("data-record");
      if (record !== null && record !== undefined && Number(record) >= 0) this.pick(Number(record));
    });
  }

  private buildSide(): void {
    for (const [tab, text] of TABS) this.tabs.append(h("button", { role: "tab", id: `tab-${tab}`, "aria-controls": "side-body", click: () => this.setTab(tab), keydown: (event: KeyboardEvent) => {
      const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
      if (!step) return;
      event.stopPropagation();
      event.preventDefault();
      const next = TABS[(TABS.findIndex(([one]) => one === tab) + step + TABS.length) % TABS.length]![0];
      this.setTab(next);
      document.getElementById(`tab-${next}`)?.focus();
    } }, text));
    for (const [filter, text] of FILTERS) this.filters.append(h("button", { class: "chip", click: () => { this.events.filter = filter; this.events.refilter(); this.draw(); } }, text));
    this.filters.append(h("input", { type: "search", "aria-label": "Find events", placeholder: "find", input: (event: Event) => { this.events.text = (event.target as HTMLInputElement).value; this.events.refilter(); } }));
  }

  private buildHelp(): void {
    const keys: [string, string][] = [["space, k", "play or pause"], ["\u2190 \u2192", "event before, next event"], ["Page Up, Page Down", "key moment before, next key moment"], ["Home, End", "beginning, end"], ["w s", "zoom in, zoom out"], ["a d", "earlier, later stretch"], ["1 to 9", "another run at the same moment"],
      ["c", "compare the runs"], ["o", "all partitions"], ["h", "predict"], ["e y v", "events, why, verdict"], ["x", "the stage in words"], ["l", "link to this moment"], ["t", "light, dark, projector"], ["?", "this list"]];
    this.help.append(h("h2", {}, "Keys"), h("table", {}, h("tbody", {}, ...keys.map(([key, text]) => h("tr", {}, h("th", { scope: "row" }, key), h("td", {}, text))))),
      h("p", { class: "small" }, "Drag on the time strip to look closer, double-click to see the whole run; the wheel zooms, with shift it moves. Click a record to follow it."), h("button", { class: "primary", click: () => this.help.close() }, "Close"));
  }

  private listenToStrip(): void {
    let from: number | undefined;
    const time = (event: MouseEvent): number => timeAt(this.window, this.strip.clientWidth, event.clientX - this.strip.getBoundingClientRect().left);
    this.strip.addEventListener("pointerdown", (event) => { from = time(event); });
    this.strip.addEventListener("pointerup", (event) => {
      if (from === undefined) return;
      const to = time(event), moved = Math.abs(xOf(this.window, this.strip.clientWidth, to) - xOf(this.window, this.strip.clientWidth, from));
      if (moved > 8) this.zoomTo(Math.min(from, to), Math.max(from, to)); else this.seekTime(to);
      from = undefined;
    });
    this.strip.addEventListener("dblclick", () => this.zoomTo(0, this.run.tape.end_us));
    this.strip.addEventListener("wheel", (event) => {
      event.preventDefault();
      const at = time(event);
      if (event.shiftKey) this.pan(Math.sign(event.deltaY || event.deltaX) * 0.1); else this.zoom(event.deltaY > 0 ? 1.25 : 0.8, at);
    }, { passive: false });
  }

  // ------------------------------------------------------------------------------------------------------- moving

  private get limit(): Place { return this.prediction.barrier(this.run); }

  seek(place: Place): void {
    this.place = Math.max(NOTHING, Math.min(place, this.limit));
    this.now = this.run.tape.at[this.place] ?? 0;
    this.keepInSight();
    this.draw();
    if (!this.playing) this.say();
  }

  private seekTime(at: number): void {
    const now = Math.max(0, Math.min(at, this.run.tape.end_us)), place = placeAt(this.run.tape, now);
    this.place = Math.min(place, this.limit);
    this.now = place > this.limit ? this.run.tape.at[this.place] ?? 0 : now;
    this.draw();
    if (!this.playing) this.say();
  }

  private step(by: number): void {
    this.pause();
    this.seek(this.place + by);
  }

  private keyMoment(by: number): void {
    this.pause();
    const { key, at } = this.run.tape;
    for (let place = this.place + by; place >= 0 && place < at.length; place += by) if (key[place]) return this.seek(place);
    this.seek(by < 0 ? NOTHING : at.length - 1);
  }

  private toggle(): void {
    if (this.playing) return this.pause();
    if (this.place >= this.run.tape.at.length - 1) this.seek(NOTHING);
    let before = performance.now(), waited = 0;
    const tick = (time: number): void => {
      const passed = Math.min(100, time - before);
      before = time;
      if (this.speed === 0) {
        waited += passed;
        const patience = this.run.tape.key[this.place] ? 1600 : 180;
        if (waited > patience) { waited = 0; this.seek(this.place + 1); }
      } else this.seekTime(this.now + passed * 1000 * this.speed);
      if (this.place >= this.limit && (this.speed === 0 || this.limit < this.run.tape.at.length - 1 || this.now >= this.run.tape.end_us)) return this.pause();
      if (this.playing) this.playing = requestAnimationFrame(tick);
    };
    this.playing = requestAnimationFrame(tick);
    this.draw();
  }

  private pause(): void {
    if (!this.playing) return;
    cancelAnimationFrame(this.playing);
    this.playing = 0;
    this.draw();
    this.say();
  }

  private keepInSight(): void {
    const { from, to } = this.window, length = to - from;
    if (this.now >= from && this.now <= to) return;
    this.window = clamp({ from: this.now - length / 2, to: this.now + length / 2 }, this.run.tape.end_us);
  }

  private zoomTo(from: number, to: number): void {
    this.window = clamp({ from, to: Math.max(to, from + 200) }, this.run.tape.end_us);
    this.draw();
  }

  private zoom(factor: number, around = this.now): void {
    const { from, to } = this.window, center = Math.min(Math.max(around, from), to);
    this.zoomTo(center - (center - from) * factor, center + (to - center) * factor);
  }

  private pan(part: number): void {
    const { from, to } = this.window, by = (to - from) * part;
    this.zoomTo(from + by, to + by);
  }

  // ------------------------------------------------------------------------------------------------------ choosing

  private chooseRun(place: number): void {
    if (!this.runs[place] || place === this.shown) return;
    const name = this.run.tape.partitions[this.partition], record = this.run.tape.records[this.picked];
    this.shown = place;
    this.run = this.runs[place]!;
    this.partition = Math.max(0, this.run.tape.partitions.indexOf(name ?? ""));
    this.picked = record === undefined ? NOTHING : this.run.tape.records.indexOf(record);
    this.seekTime(this.now);
  }

  private choosePartition(partition: Place): void {
    this.partition = partition;
    this.setMode("one");
  }

  private setMode(mode: Mode): void {
    this.mode = mode;
    this.columns.classList.toggle("wide", mode === "compare");
    this.columns.classList.toggle("of-partitions", mode === "partitions");
    this.draw();
  }

  private setTab(tab: Tab): void {
    this.tab = tab;
    this.draw();
  }

  private pick(record: Place): void {
    if (this.prediction.isOn) return;
    this.picked = record;
    this.tab = "why";
    this.draw();
  }

  private predict(): void {
    this.pause();
    if (this.prediction.isOn) {
      this.prediction.isOn = false;
      return this.draw();
    }
    this.prediction.start();
    this.setMode("one");
    this.tab = "events";
    this.picked = NOTHING;
    this.seek(0);
    this.window = { from: 0, to: this.run.tape.end_us };
    this.seek(this.limit);
  }

  private setTheme(theme: number): void {
    this.theme = theme % THEMES.length;
    document.documentElement.dataset["theme"] = THEMES[this.theme];
    this.draw();
  }

  private copyLink(): void {
    const hash = `#t=${seconds(this.now)}&e=${this.place}&r=${this.shown}&p=${this.partition}${this.mode === "compare" ? "&c=1" : ""}`;
    history.replaceState(null, "", hash);
    void navigator.clipboard?.writeText(location.href).catch(() => undefined);
    this.live.textContent = `The address of this page now names the moment: ${hash}`;
  }

  private readPermalink(): void {
    const wanted = new URLSearchParams(location.hash.slice(1)), number = (name: string): number => (wanted.get(name)?.match(/^\d{1,9}(\.\d{1,6})?$/) ? Number(wanted.get(name)) : NOTHING);
    if (number("r") >= 0) {
      this.setMode(wanted.has("c") && this.runs.length > 1 ? "compare" : "one");
      this.chooseRun(number("r"));
    }
    if (this.run.tape.partitions[number("p")] !== undefined) this.partition = number("p");
    if (this.run.tape.at[number("e")] !== undefined) this.seek(number("e"));
    else if (number("t") >= 0) this.seekTime(number("t") * 1e6);
    else if (this.place === NOTHING) this.seek(this.run.opens_at);
  }

  private key(event: KeyboardEvent): void {
    const target = event.target as HTMLElement;
    if (event.ctrlKey || event.metaKey || event.altKey || this.help.open || target.matches("select, input:not([type=radio])")) return;
    if (event.key === " " && target.matches("button, input") || event.key.startsWith("Arrow") && target.matches("input")) return;
    const acts: Record<string, () => void> = {
      " ": () => this.toggle(), k: () => this.toggle(), ArrowLeft: () => this.step(-1), ArrowRight: () => this.step(1), PageUp: () => this.keyMoment(-1), PageDown: () => this.keyMoment(1),
      Home: () => this.seek(NOTHING), End: () => this.seek(this.run.tape.at.length - 1), w: () => this.zoom(0.6), s: () => this.zoom(1.6), a: () => this.pan(-0.25), d: () => this.pan(0.25),
      c: () => this.runs.length > 1 && this.setMode(this.mode === "compare" ? "one" : "compare"), o: () => this.run.tape.partitions.length > 1 && this.setMode(this.mode === "partitions" ? "one" : "partitions"),
      h: () => this.predict(), e: () => this.setTab("events"), y: () => this.setTab("why"), v: () => this.setTab("verdict"), x: () => { this.live.textContent = visible(describe(this.scene(this.shown))); this.live.classList.toggle("unseen"); },
      l: () => this.copyLink(), t: () => this.setTheme(this.theme + 1), "?": () => this.help.showModal(),
    };
    const act = acts[event.key] ?? (/^[1-9]$/.test(event.key) ? () => this.chooseRun(Number(event.key) - 1) : undefined);
    if (!act) return;
    event.preventDefault();
    act();
  }

  // ------------------------------------------------------------------------------------------------------ drawing

  private draw(): void {
    if (this.isDrawing) return;
    this.isDrawing = true;
    requestAnimationFrame(() => {
      this.isDrawing = false;
      this.drawNow();
    });
  }

  private say(): void {
    this.live.textContent = visible(`${seconds(this.now)} s: ${sentence(this.run.tape, this.place)}`);
  }

  private get hides(): boolean { return this.prediction.isOn && !this.runs.every((run) => this.prediction.isOver(run)); }

  private scene(number: number): Scene {
    const run = this.runs[number]!, cluster = this.clusters[number]!, name = this.run.tape.partitions[this.partition];
    const partition = number === this.shown ? this.partition : Math.max(0, run.tape.partitions.indexOf(name ?? ""));
    const limit = this.prediction.barrier(run);
    cluster.seek(Math.min(number === this.shown ? this.place : placeAt(run.tape, this.now), limit));
    const decisive = run.stories[0]?.moments.filter((moment) => moment[3]).at(-1)?.[0] ?? run.opens_at;
    return { run, cluster, partition, replicas: this.series(number, partition).replicas, now: this.now, hides: this.hides, knownFrom: decisive, picked: number === this.shown ? this.picked : NOTHING, compact: false };
  }

  private series(number: number, partition: Place): Series {
    const key = `${number}/${partition}`;
    let found = this.seriesBy.get(key);
    if (!found) this.seriesBy.set(key, (found = seriesOf(this.runs[number]!.tape, partition)));
    return found;
  }

  private drawNow(): void {
    const { tape } = this.run, scene = this.scene(this.shown), width = this.stage.clientWidth || 800;
    // The title of a scenario often names its end.
    this.title.textContent = visible(this.hides ? this.run.head.scenario : this.run.head.title);
    document.title = `${this.title.textContent} - Highwater`;
    this.clock.textContent = `${seconds(this.now)} s`;
    this.bar.replaceChildren(h("span", { class: `sign ${tape.key[this.place] ?? ""}`, "aria-hidden": "true" }, this.place < 0 ? "\u25b6" : signOf(this.run, this.place)), visible(sentence(tape, this.place)));
    if (this.mode === "compare") {
      const seats: Seat[] = this.runs.map((run, place) => ({ run, scene: this.scene(place) }));
      this.stage.replaceChildren(comparePane(seats, this.shown, width, this.hides, (place) => this.chooseRun(place), (at) => this.seekTime(at)));
    } else if (this.mode === "partitions") this.drawPartitions(scene.cluster);
    else this.stage.replaceChildren(drawStage(scene, width));
    this.playButton.textContent = this.playing ? "\u2016" : "\u25b6";
    this.playButton.setAttribute("aria-label", this.playing ? "Pause (space)" : "Play (space)");
    this.partitions.value = String(this.partition);
    this.buttons.get("compare")?.setAttribute("aria-pressed", String(this.mode === "compare"));
    this.buttons.get("partitions")?.setAttribute("aria-pressed", String(this.mode === "partitions"));
    this.buttons.get("predict")?.setAttribute("aria-pressed", String(this.prediction.isOn));
    this.drawRuns();
    this.drawChips();
    this.drawSide();
    this.drawStripBox();
    this.drawQuestion();
  }

  private drawPartitions(cluster: Cluster): void {
    const { tape } = this.run, limit = this.hides ? this.now : tape.end_us, key = [this.shown, limit, tape.at.length].join("/"), before = this.overview;
    if (before?.key !== key) {
      const standings = this.standingsBy.get(this.shown) ?? standingsOf(tape);
      this.standingsBy.set(this.shown, standings);
      this.overview = overviewPane(key, this.run, standings, limit, (partition) => this.choosePartition(partition));
    }
    const { element, show } = this.overview!, top = before?.element.scrollTop ?? 0;
    show(cluster, this.now);
    if (element.parentElement === this.stage) return;
    this.stage.replaceChildren(element);
    element.scrollTop = top;
  }

  private drawRuns(): void {
    if (this.runs.length < 2) {
      const { good, text } = verdictOf(this.run.head);
      this.runButtons.replaceChildren(h("span", { class: `pill ${this.hides ? "" : good ? "good" : "bad"}` }, this.hides ? "?" : `${good ? "\u2713" : "\u2715"} ${text}`));
      return;
    }
    if (this.runButtons.childElementCount !== this.runs.length) this.runButtons.replaceChildren(...this.runs.map((_, place) => h("button", { class: "run", click: () => this.chooseRun(place) })));
    this.runs.forEach((run, place) => {
      const { good, text } = verdictOf(run.head), button = this.runButtons.children[place]!;
      button.setAttribute("aria-pressed", String(place === this.shown));
      button.replaceChildren(h("strong", {}, run.head.label), h("span", { class: this.hides ? "muted" : good ? "good" : "bad" }, this.hides ? "?" : `${good ? "\u2713" : "\u2715"} ${text}`));
    });
  }

  private drawChips(): void {
    const { tape } = this.run, limit = this.limit;
    const places = tape.key.flatMap((sign, place) => (sign && tape.at[place]! > 0 && place <= limit ? [place] : [])).slice(0, 80);
    const current = places.filter((place) => place <= this.place).at(-1), key = `${this.shown}/${places.length}/${current}`;
    if (key === this.chipsKey) return;
    this.chipsKey = key;
    this.chips.replaceChildren(...places.map((place) => h("button", { class: `chip ${tape.key[place]}${place === current ? " on" : ""}`, title: sentence(tape, place), click: () => { this.pause(); this.seek(place); } }, `${signOf(this.run, place)} ${short(this.run, place)}`)));
    const on = this.chips.querySelector<HTMLElement>(".on");
    if (on) this.chips.scrollLeft = on.offsetLeft - this.chips.clientWidth / 2;
  }

  private drawSide(): void {
    const tab = this.hides ? "events" : this.tab;
    for (const [name] of TABS) {
      const button = document.getElementById(`tab-${name}`) as HTMLButtonElement;
      button.setAttribute("aria-selected", String(name === tab));
      button.tabIndex = name === tab ? 0 : -1;
      button.disabled = this.hides && name !== "events";
    }
    this.sideBody.setAttribute("aria-labelledby", `tab-${tab}`);
    if (tab === "events") {
      if (!this.events.element.isConnected) this.sideBody.replaceChildren(this.filters, this.events.element);
      [...this.filters.querySelectorAll("button")].forEach((button, place) => button.setAttribute("aria-pressed", String(FILTERS[place]![0] === this.events.filter)));
      this.events.show(this.run, this.place, this.limit);
      return;
    }
    const key = `${tab}/${this.shown}/${this.picked}`;
    if (this.why?.key !== key) this.why = { key, element: tab === "why" ? whyPane(this.run, this.picked, (place) => { this.pause(); this.seek(place); }, (record) => this.pick(record)) : verdictPane(this.runs, this.shown) };
    if (!this.why.element.isConnected) this.sideBody.replaceChildren(this.why.element);
  }

  private drawStripBox(): void {
    const { tape } = this.run, width = this.strip.clientWidth || 900, hidesAfter = this.prediction.isOn && this.limit < tape.at.length - 1 ? tape.at[this.limit] ?? 0 : tape.end_us;
    const key = [this.shown, this.partition, this.window.from, this.window.to, width, hidesAfter].join("/");
    if (key !== this.stripKey) {
      this.stripKey = key;
      this.strip.replaceChildren(drawStrip({ run: this.run, series: this.series(this.shown, this.partition), window: this.window, now: this.now, hidesAfter, end: tape.end_us }, width));
    } else {
      const svg = this.strip.firstElementChild!;
      svg.querySelector(".playhead")?.remove();
      if (this.now >= this.window.from && this.now <= this.window.to) svg.append(playhead(xOf(this.window, width, this.now), Number(svg.getAttribute("height"))));
    }
    this.strip.setAttribute("aria-valuemin", "0");
    this.strip.setAttribute("aria-valuemax", String(tape.end_us / 1e6));
    this.strip.setAttribute("aria-valuenow", seconds(this.now));
    this.strip.setAttribute("aria-valuetext", visible(`${seconds(this.now)} seconds, ${sentence(tape, this.place)}`));
  }

  private drawQuestion(): void {
    const open = this.prediction.isOn && this.place >= this.limit ? this.prediction.open(this.run, this.place) : undefined;
    const key = open ? `${this.shown}/${open.number}` : this.prediction.isOn ? "on" : "off";
    if (this.ask.dataset["key"] === key && open) return;
    // An answer is read before the next question, which may stand at the same moment.
    if (this.ask.querySelector(".result button") && this.prediction.isOn) return;
    this.ask.dataset["key"] = key;
    const { right, of } = this.prediction.score();
    if (!this.prediction.isOn) this.ask.replaceChildren();
    else if (open) {
      this.ask.replaceChildren(this.prediction.form(this.run, open.number, () => {
        this.ask.dataset["key"] = "";
        this.ask.replaceChildren();
        this.seek(Math.min(open.question[0], this.limit));
        this.playOn();
      }));
      this.ask.querySelector("input")?.focus();
    } else this.ask.replaceChildren(h("p", { class: "score" }, this.prediction.isOver(this.run) ? `Predicted: ${right} of ${of} right. Play on, or press h to leave.` : `Predict: play or step; the page stops and asks. ${right} of ${of} right so far.`));
  }

  /** After an answer: to the next question, or on to the end. */
  private playOn(): void {
    if (this.place < this.limit && !this.playing) this.toggle();
  }
}

function clamp({ from, to }: Window, end: number): Window {
  const length = Math.min(to - from, Math.max(end, 1)), start = Math.max(0, Math.min(from, end - length));
  return { from: start, to: start + length };
}

/** A key moment in two or three words. */
function short(run: Run, place: Place): string {
  const { tape } = run, node = nameOf(tape, tape.node[place] ?? NOTHING), text = sentence(tape, place), kind = tape.kinds[tape.kind[place]!]!;
  const named = /^([\w.-]+) /.exec(text)?.[1] ?? node;
  const words: Record<string, string> = {
    node_stopped: `${node} down`, node_started: `${node} starts`, leader_elected: `${named} elected`, log_truncated: `${node} truncates`, broker_fenced: `${named} fenced`,
    partition_went_offline: "no leader", fault_began: tape.key[place] === "undone" ? "undone" : "fault", fault_ended: "undone",
    produce_refused: "refused", data_lost: `${node} loses data`, election_refused: "no election", isr_rejected: "ISR refused",
  };
  if (kind === "isr_committed") return text.split(":")[0]!;
  return words[kind] ?? kind.replaceAll("_", " ");
}

/** The page of a cluster that is running: its tape comes from beside the page. */
function follow(head: Head): void {
  const feed = new EventSource("events");
  let player: Player | undefined;
  feed.addEventListener("message", (event: MessageEvent<string>) => {
    player ??= new Player([liveRun(head)], app);
    player.lost(false);
    player.grow(JSON.parse(event.data) as Part);
  });
  feed.addEventListener("error", () => player?.lost(true));
}

const app = document.getElementById("app")!;
readData(document.getElementById("data")!.textContent ?? "").then(
  ({ brokers, runs, live }) => {
    setMarks(brokers);
    if (live) follow(live); else new Player(runs, app);
  },
  (error: unknown) => app.replaceChildren(h("p", { class: "loading" }, `This page could not be opened: ${String(error)}. Make it again with \`highwater view\`.`)),
);

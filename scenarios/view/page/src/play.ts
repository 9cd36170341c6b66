// Play: what can be broken now, and the futures that came of it. Everything is asked of where the page came from.
import { type Choice, type Difference, type Future, type Play, type Run, opened, seconds, verdictOf } from "./contract";
import { h } from "./dom";
import type { StepMark } from "./strip";
import { timeField } from "./time_field";
import { Trial } from "./trial";
import type { Mode, Watching } from "./watching";

const SHARE_MS = 200;

/** What a page shows, told to all others. pair: the futures that stand side by side     by: which page says so */
interface Moment { future: number; place: number; now_us: number; partition: number; mode: Mode; pair: number[]; by: string }

/** What all pages are told. */
interface News { made?: Answer; gone?: number[]; compared?: Answer; moment?: Moment }

/** at_us: the time of a step that is chosen in the menu     restored: an answer for each future that is there again     labels: what two futures are called side by side: those of `futures`, or the one before and the new one     differs: where they diverge */
interface Answer { error?: string; at_us?: number; choices?: Choice[]; restored?: Answer[]; future?: Future; run?: Run; futures?: number[]; labels?: string[]; differs?: Difference | null; gone?: number[]; verdict?: string[]; lost?: number }

async function ask(what: string, request: object): Promise<Answer> {
  try {
    const answer = await fetch(what, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(request) });
    return answer.ok ? await answer.json() as Answer : { error: `The server refused it (${answer.status}).` };
  } catch {
    return { error: "highwater play does not answer: it has ended. Start it again, and open its new address." };
  }
}

export class PlayBox {
  readonly element = h("section", { class: "play-box", "aria-label": "Futures" });
  readonly dialog = h("dialog", { class: "breaking", "aria-label": "Break it" });
  private readonly tree = h("ul", { class: "futures", "aria-label": "Futures" });
  private readonly steps = h("div", { class: "steps-of-future" });
  private readonly says = h("p", { class: "small", role: "status" });
  /** The same in the menu, which covers the page. */
  private readonly saysInMenu = h("p", { class: "small", role: "status" });
  private readonly text = h("textarea", { rows: 16, spellcheck: "false", "aria-label": "The scenario as YAML" });
  /** By number of the future the place of its run. */
  private readonly placeOf = new Map<number, number>();
  private readonly futures = new Map<number, Future>();
  /** By the numbers of two futures, with a slash between them. */
  private readonly pairs = new Map<string, { labels: string[]; differs: Difference | null }>();
  /** Those that stand side by side, as long as one of them is shown. */
  private pair: number[] = [];
  private readonly others = h("select", { "aria-label": "The other future", change: () => void this.compareWith(Number(this.others.value)) });
  private target = "";
  private isBusy = false;
  private drawn = -1;
  private choices: Choice[] = [];
  /** When a step happens that is chosen in the menu. */
  private stepAt = 0;
  /** What is shown since a future was deleted: as long as it is, Undo brings that future back. */
  private shownSinceDeletion: Future | undefined;
  /** By the number of a future and the place of its step, with a slash between them. */
  private readonly trials = new Map<string, Trial>();
  private readonly name = Math.random().toString(36).slice(2, 12);
  /** What the other pages know of this one, or this one of them. */
  private shared = "";
  private isSharing = false;
  /** It has been told of all that was made before it was opened. */
  private isUpToDate = false;

  /** goOn: the page plays on from the moment it shows */
  constructor(private readonly watching: Watching, private readonly play: Play, private readonly goOn: () => void) {
    this.placeOf.set(play.first.number, 0);
    this.futures.set(play.first.number, play.first);
    this.listen();
    if (!this.breaks) {
      this.element.append(h("div", { class: "play-bar" }, h("strong", {}, "You are watching."), "This page shows what the one who plays shows.", this.says), this.tree, this.steps);
      return;
    }
    this.element.append(
      h("div", { class: "play-bar" }, h("button", { class: "primary", click: () => this.open() }, "Break it", h("kbd", {}, "b")),
        h("button", { click: () => this.undo() }, "Undo", h("kbd", {}, "u")), h("button", { click: () => this.compare() }, "Compare with"), this.others,
        h("button", { click: () => void this.remove() }, "Delete this future"), h("button", { click: () => this.download() }, "Download YAML"), this.says),
      this.tree, this.steps,
      h("details", {}, h("summary", {}, "The scenario as YAML"), this.text, h("button", { click: () => void this.make({ text: this.text.value }, false) }, "Play this text")));
  }

  /** Whether this page may make futures. */
  get breaks(): boolean { return !this.play.follows; }

  private listen(): void {
    const feed = new EventSource("events");
    feed.addEventListener("message", (event: MessageEvent<string>) => this.hear(JSON.parse(event.data) as News));
    feed.addEventListener("error", () => this.say("highwater play does not answer."));
    feed.addEventListener("open", () => this.say(""));
  }

  private hear({ made, gone, compared, moment }: News): void {
    if (made) this.take(made);
    if (compared) this.putPair(compared.futures!, compared);
    if (gone) this.forget(gone);
    this.isUpToDate ||= moment !== undefined || !(made || compared || gone);
    if (!moment || moment.by === this.name || !this.futures.has(moment.future)) return;
    const place = this.placeOf.get(moment.future)!;
    this.pair = moment.pair;
    this.drawn = -1;
    this.watching.show(place, moment.partition, moment.place, moment.now_us, moment.mode);
    this.shared = this.moment();
  }

  /** Of a future that was made here or elsewhere, the place of its run. */
  private take({ future, run, labels }: Answer): number {
    const known = this.placeOf.get(future!.number), place = known ?? this.watching.add(opened(run!));
    if (this.futures.has(future!.number)) return place;
    this.placeOf.set(future!.number, place);
    this.watching.deleted.delete(place);
    this.futures.set(future!.number, future!);
    this.putPair([future!.parent!, future!.number], { labels, differs: run!.differs });
    this.drawn = -1;
    this.draw();
    return place;
  }

  private putPair(pair: number[], { labels, differs }: Answer): void {
    this.pairs.set(pair.join("/"), { labels: labels ?? [], differs: differs ?? null });
  }

  private forget(gone: number[]): void {
    const { number, parent } = this.shown;
    for (const one of gone) {
      this.futures.delete(one);
      if (this.placeOf.has(one)) this.watching.deleted.add(this.placeOf.get(one)!);
    }
    if (gone.includes(number)) this.watching.chooseRun(this.placeOf.get(gone.includes(parent ?? 0) ? 0 : parent ?? 0) ?? 0);
    this.drawn = -1;
    this.draw();
  }

  private moment(): string {
    const { watching } = this, { place, now, partition, mode } = watching;
    return JSON.stringify({ future: this.shown.number, place, now_us: Math.round(now), partition, mode, pair: this.pair, by: this.name });
  }

  /** Tells the other pages what this one shows, a few times a second at most. */
  private share(): void {
    if (!this.breaks || !this.isUpToDate || this.isSharing || this.moment() === this.shared) return;
    this.isSharing = true;
    setTimeout(() => {
      const moment = this.shared = this.moment();
      void ask("moment", JSON.parse(moment) as Moment).then(() => {
        this.isSharing = false;
        this.share();
      });
    }, SHARE_MS);
  }

  /** The menu as of now, of a node, of a link, of a partition, or of what was chosen last. */
  async open(target = this.target): Promise<void> {
    const answer = await ask("choices", { future: this.shown.number, now_us: Math.round(this.watching.now) });
    this.say(answer.error ?? "");
    if (!answer.choices || this.dialog.open) return;
    this.choices = answer.choices;
    this.stepAt = answer.at_us!;
    this.turnTo(target);
    this.dialog.showModal();
  }

  private turnTo(target: string): void {
    const targets = this.targets(), turned = target.split(" ").reverse().join(" ");
    this.target = [target, turned].find((name) => targets.includes(name) || this.choices.some(([other]) => other === name)) ?? targets[0]!;
    this.fill(targets.includes(this.target) ? targets : [this.target, ...targets]);
  }

  undo(): void {
    const { shown, shownSinceDeletion } = this;
    if (shown === shownSinceDeletion) void this.restore();
    else if (shown.parent !== null) this.watching.chooseRun(this.placeOf.get(shown.parent)!);
    else this.say("Nothing comes before the scenario as written.", false);
  }

  draw(): void {
    const { watching } = this;
    this.share();
    if (this.drawn === watching.shown) return;
    this.drawn = watching.shown;
    this.choosePair();
    const told = this.pairs.get(this.pair.join("/"));
    watching.compared = this.pair.length ? this.pair.map((number) => this.placeOf.get(number)!) : [watching.shown];
    watching.labels = told?.labels ?? [];
    watching.differs = told?.differs ?? null;
    this.drawOthers();
    if (this.text.value !== this.shown.text) this.text.value = this.shown.text;
    this.drawTree();
    this.drawSteps();
  }

  /** Beside the one that is shown stands the one that was chosen, else the one before it, else one that was made from it. */
  private choosePair(): void {
    const { number, parent } = this.shown;
    if (this.pair.includes(number) && this.pair.every((one) => this.futures.has(one))) return;
    const child = [...this.futures.values()].find((future) => future.parent === number);
    this.pair = parent !== null ? [parent, number] : child ? [number, child.number] : [];
  }

  private drawOthers(): void {
    const { number } = this.shown, below = (parent: number | null, indent: string): HTMLElement[] => [...this.futures.values()].filter((future) => future.parent === parent).flatMap((future) => [
      ...(future.number === number ? [] : [h("option", { value: future.number, selected: this.pair.includes(future.number) }, `${indent}${future.name}`)]), ...below(future.number, `${indent}\u00a0\u00a0`)]);
    this.others.replaceChildren(...below(null, ""));
    this.others.disabled = this.futures.size < 2;
  }

  private get shown(): Future {
    const number = [...this.placeOf].find(([, place]) => place === this.watching.shown)?.[0] ?? 0;
    return this.futures.get(number)!;
  }

  /** A node with its links, every partition, and the network. */
  private targets(): string[] {
    return [...new Set(this.choices.map(([target]) => target.split(" ")[0]!))];
  }

  private fill(targets: string[]): void {
    const choice = h("select", { "aria-label": "What to break", change: (event: Event) => this.turnTo((event.target as HTMLSelectElement).value) },
      ...targets.map((target) => h("option", { value: target, selected: target === this.target }, target)));
    const buttons = this.choices.filter(([target]) => target === this.target || target.split(" ").includes(this.target)).map(([target, label, words, sentence, why]) => {
      const other = target === this.target ? undefined : target.split(" ").find((name) => name !== this.target);
      return h("li", {}, h("button", { disabled: why !== "", click: () => void this.make(words[0] === "set" ? { setting: words[1] } : { words, now_us: Math.round(this.watching.now) }, true) },
        other === undefined ? label : `${label} (${other})`), h("span", { class: "small muted" }, ` ${why || sentence}`));
    });
    this.dialog.replaceChildren(h("h2", {}, `At ${seconds(this.stepAt)} s`), choice, this.saysInMenu, h("ul", { class: "choices" }, ...buttons), h("button", { click: () => this.dialog.close() }, "Close"));
  }

  private async make(change: object, goesOn: boolean): Promise<void> {
    const answer = await this.asked("future", { parent: this.shown.number, ...change });
    if (!answer?.future || !answer.run) return;
    const now = this.watching.now, place = this.take(answer);
    this.dialog.close();
    this.watching.chooseRun(place);
    this.watching.seekTime(now);
    if (goesOn) this.goOn();
  }

  private async remove(): Promise<void> {
    const { number, parent } = this.shown;
    if (parent === null) return this.say("The scenario as written stays.");
    const answer = await this.asked("delete", { number });
    if (!answer?.gone) return;
    this.forget(answer.gone);
    this.shownSinceDeletion = this.shown;
    this.say(`Deleted ${answer.gone.length === 1 ? "1 future" : `${answer.gone.length} futures`}. Undo brings back all of it.`, false);
  }

  private async restore(): Promise<void> {
    const answer = await this.asked("restore", {});
    if (!answer?.restored) return;
    this.shownSinceDeletion = undefined;
    const places = answer.restored.map((one) => this.take(one));
    if (places.length) this.watching.chooseRun(places[0]!);
  }

  private async asked(what: string, request: object): Promise<Answer | undefined> {
    if (this.isBusy) return undefined;
    this.isBusy = true;
    this.say("Playing ...", false);
    const answer = await ask(what, request);
    this.isBusy = false;
    this.say(answer.error ?? "");
    if (answer.error !== undefined) this.says.scrollIntoView({ block: "nearest" });
    return answer.error === undefined ? answer : undefined;
  }

  private say(text: string, isBad = text !== ""): void {
    for (const says of [this.says, this.saysInMenu]) {
      says.textContent = text;
      says.classList.toggle("bad", isBad);
      // What is wrong with a text points at its place below the line.
      says.classList.toggle("code", text.includes("\n"));
    }
  }

  private compare(): void {
    if (this.futures.size < 2) return this.say("There is no other future yet.");
    if (this.watching.mode === "compare") this.watching.setMode("one"); else void this.compareWith(Number(this.others.value));
  }

  /** Beside what is shown, any other future: what they are called and where they diverge is asked once for each pair. */
  private async compareWith(other: number): Promise<void> {
    const pair = this.pair.includes(other) && this.pair.includes(this.shown.number) ? this.pair : [other, this.shown.number];
    if (!this.pairs.has(pair.join("/"))) {
      const answer = await this.asked("compare", { futures: pair });
      if (!answer) return;
      this.putPair(pair, answer);
    }
    this.pair = pair;
    this.drawn = -1;
    this.watching.setMode("compare");
  }

  private download(): void {
    const link = h("a", { href: URL.createObjectURL(new Blob([this.shown.text], { type: "application/yaml" })), download: "future.yaml" });
    link.click();
    URL.revokeObjectURL(link.href);
  }

  private drawTree(): void {
    const below = (parent: number | null): HTMLElement[] => [...this.futures.values()].filter((future) => future.parent === parent).map((future) => {
      const place = this.placeOf.get(future.number)!, { kind, text } = verdictOf(this.watching.runs[place]!.head), inside = below(future.number);
      return h("li", {}, h("button", { class: "future", "aria-pressed": String(place === this.watching.shown), click: () => this.watching.chooseRun(place) }, future.name,
        h("span", { class: kind }, ` ${text}`), ...future.steps.flatMap(([, step, , needless]) => needless ? [h("span", { class: "small unpromised" }, ` ${step}: ${needless}`)] : [])), inside.length > 0 && h("ul", {}, ...inside));
    });
    this.tree.replaceChildren(...below(null));
  }

  /** Steps of the shown future that happen at a time, in their order. */
  get marks(): StepMark[] {
    return this.shown.steps.flatMap(([at, sentence, lasts, needless], index) => at === null ? [] : [{ index, at, sentence, lasts, needless }]).sort((one, other) => one.at - other.at);
  }

  moveStep(index: number, at: number): Promise<void> { return this.make({ move: [index, at] }, false); }

  private drawSteps(): void {
    const end = this.watching.run.tape.end_us;
    this.steps.replaceChildren(...this.marks.map((mark) => this.step(mark, end)));
  }

  /** One step: a slider or a typed time moves it, its effect is made longer or shorter, and its times can be tried one after the other. */
  private step({ index, at, sentence, lasts, needless }: StepMark, end: number): HTMLElement {
    const shown = `${seconds(at)} s`, words = h("span", {}, sentence, needless && h("span", { class: "small unpromised" }, ` ${needless}`));
    if (!this.breaks) return h("div", { class: "step-row" }, words, h("span", { class: "mono" }, shown));
    const typed = timeField(`Time of: ${sentence}`, shown, shown, (time, field) => {
      field.value = shown;
      if (time !== null) void this.moveStep(index, time);
    });
    // By keys it would make a future with each millisecond: those type the time.
    const slider = h("input", { type: "range", tabindex: -1, min: 0, max: Math.round(end / 1e3), value: Math.round(at / 1e3), "aria-label": `Slide: ${sentence}`,
      input: (event: Event) => { typed.querySelector("input")!.value = `${seconds(Number((event.target as HTMLInputElement).value) * 1e3)} s`; },
      change: (event: Event) => void this.moveStep(index, Number((event.target as HTMLInputElement).value) * 1e3) });
    const { strip, button } = this.trial(index, end);
    return h("div", { class: "step-row" }, words, typed, h("div", { class: "slide" }, slider, strip),
      lasts === null ? h("span") : h("label", { class: "small" }, "for ", timeField(`How long it lasts: ${sentence}`, "no end", lasts, (time) => void this.make({ last: [index, time] }, false))),
      button, h("button", { click: () => void this.make({ remove: index }, false) }, "Remove"));
  }

  /** It goes on, and keeps what it has found, whatever else is shown or asked meanwhile. */
  private trial(index: number, end: number): Trial {
    const parent = this.shown.number, key = `${parent}/${index}`;
    const trial = this.trials.get(key) ?? new Trial(end, (at) => ask("verdict", { parent, move: [index, at] }), (why) => this.say(why));
    this.trials.set(key, trial);
    return trial;
  }
}

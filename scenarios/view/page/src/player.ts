// The player: one moment, one run, one partition, and everything on the page drawn from these, at most once a frame.
import { type Part, type Play, type Run, NOTHING, seconds, sentence } from "./contract";
import { hasCoordinators } from "./coordinators";
import { h, visible } from "./dom";
import { Header, modeAction } from "./header";
import { type Key, listenToKeys } from "./keys";
import { PlayBox } from "./play";
import { Playback } from "./playback";
import { QuestionBox } from "./question_box";
import { SideBox } from "./side_box";
import { describe } from "./stage";
import { signOf } from "./side";
import { StageBox } from "./stage_box";
import { StripBox } from "./strip_box";
import { Transport } from "./transport";
import { Watching } from "./watching";

const THEMES = ["light", "dark", "projector"] as const;

export class Player {
  private readonly watching: Watching;
  private readonly playback: Playback;
  private readonly header: Header;
  private readonly stage: StageBox;
  private readonly side: SideBox;
  private readonly question: QuestionBox;
  private readonly transport: Transport;
  private readonly strip: StripBox;
  private readonly play: PlayBox | undefined;
  private theme = matchMedia("(prefers-color-scheme: dark)").matches ? 1 : 0;
  private isDrawing = false;
  private drawnWidth = 0;

  private readonly sentence = h("p", { class: "sentence" });
  private readonly clock = h("span", { class: "clock mono" });
  private readonly live = h("p", { class: "unseen", role: "status" });
  private readonly columns = h("div", { class: "columns" });

  /** predicts: it begins by asking     play: the scenario can be broken here */
  constructor(runs: Run[], private readonly app: HTMLElement, predicts = false, play?: Play) {
    const watching = this.watching = new Watching(runs, { changed: () => this.draw(), moved: () => this.playback.isOn || this.say() });
    this.playback = new Playback(watching, () => {
      this.draw();
      if (!this.playback.isOn) this.say();
    });
    this.play = play && new PlayBox(watching, play, () => this.playback.isOn || watching.isAtEnd || this.playback.toggle());
    const { list, open } = listenToKeys((openList) => this.keys(openList)), { head, tape } = watching.run;
    this.header = new Header(watching, [
      { text: "Break it", key: "b", isThere: this.breaks, act: () => this.break() },
      modeAction(watching, "compare", "Compare", "c", runs.length > 1 || play !== undefined),
      modeAction(watching, "partitions", "Partitions", "o", head.live || tape.partitions.length > 1),
      { text: "Predict", key: "h", isThere: !play && runs.some((run) => run.questions.length), act: () => this.predict(), isOn: () => watching.prediction.isOn },
      { text: "Link", key: "l", isThere: true, act: () => this.copyLink() },
      { text: "Theme", key: "t", isThere: true, act: () => this.nextTheme() },
      { text: "Keys", key: "?", isThere: true, act: open },
    ], play !== undefined);
    this.stage = new StageBox(watching, this.breaks ? (name) => this.break(name) : undefined);
    this.side = new SideBox(watching, (place) => {
      this.playback.pause();
      watching.seek(place);
    });
    this.question = new QuestionBox(watching, this.playback);
    this.transport = new Transport(watching, this.playback);
    const { play: box } = this;
    this.strip = new StripBox(watching, box && (() => box.marks), box?.breaks ? (index, at) => box.moveStep(index, at) : undefined);
    this.columns.append(this.stage.element, h("div", { class: "aside" }, this.question.element, this.side.element));
    app.replaceChildren(this.header.element, h("main", {}, h("div", { class: "now-bar" }, this.clock, this.sentence), this.live, this.columns,
      this.question.sheet, this.transport.element, this.strip.element, this.play?.element ?? ""), list, this.play?.dialog ?? "");
    if ((predicts || location.hash === "#predict") && runs.some((run) => run.questions.length)) watching.predict(); else watching.follow(location.hash);
    addEventListener("hashchange", () => watching.follow(location.hash));
    new ResizeObserver(() => {
      if (app.clientWidth !== this.drawnWidth) this.draw();
    }).observe(app);
  }

  /** Of a cluster that is running: goes on with a part of the tape. */
  grow(part: Part): void {
    this.watching.grow(part, this.playback.isOn);
    this.side.grow(part.begins);
  }

  /** Whether the cluster answers no more. */
  lost(isGone: boolean): void {
    this.header.lost(isGone);
    this.draw();
  }

  private keys(openList: () => void): Key[] {
    const { watching, playback } = this, { head } = watching.run;
    const key = (shown: string, does: string, acts: Record<string, () => void>): Key => ({ shown, does, acts });
    const toggle = (): void => playback.toggle(), runs = Object.fromEntries([1, 2, 3, 4, 5, 6, 7, 8, 9].map((number) => [String(number), () => watching.chooseRun(watching.numbers[number - 1] ?? NOTHING)]));
    return [
      key("space, k", "play or pause", { " ": toggle, k: toggle }),
      key("\u2190 \u2192", "event before, next event", { ArrowLeft: () => playback.step(-1), ArrowRight: () => playback.step(1) }),
      key("Page Up, Page Down", "key moment before, next key moment", { PageUp: () => playback.keyMoment(-1), PageDown: () => playback.keyMoment(1) }),
      key("Home, End", "beginning, end", { Home: () => watching.seek(NOTHING), End: () => watching.seek(watching.run.tape.at.length - 1) }),
      key("w s", "zoom in, zoom out", { w: () => watching.zoom(0.6), s: () => watching.zoom(1.6) }),
      key("a d", "earlier, later stretch", { a: () => watching.pan(-0.25), d: () => watching.pan(0.25) }),
      key("1 to 9", "another run at the same moment", runs),
      ...(this.breaks ? [key("b", "break something now", { b: () => this.break() }), key("u", "back to the future before", { u: () => this.play?.undo() })] : []),
      key("c", "compare the runs", { c: () => watching.switchMode("compare") }),
      key("o", "all partitions", { o: () => watching.switchMode("partitions") }),
      key("h", "predict", { h: () => this.predict() }),
      key("e y v", "events, why, verdict", { e: () => watching.setTab("events"), y: () => watching.setTab("why"), v: () => watching.setTab("verdict") }),
      ...(head.live || this.watching.runs.some((run) => hasCoordinators(run.tape)) ? [key("g", "coordinators: transactions and groups", { g: () => watching.setTab("coordinators") })] : []),
      key("x", "the stage in words", { x: () => this.sayTheStage() }),
      key("l", "link to this moment", { l: () => this.copyLink() }),
      key("t", "light, dark, projector", { t: () => this.nextTheme() }),
      key("?", "this list", { "?": openList }),
    ];
  }

  private get breaks(): boolean { return this.play?.breaks ?? false; }

  private break(name?: string): void {
    this.playback.pause();
    void this.play?.open(name);
  }

  private predict(): void {
    this.playback.pause();
    this.watching.predict();
  }

  private nextTheme(): void {
    this.theme = (this.theme + 1) % THEMES.length;
    this.draw();
  }

  private copyLink(): void {
    const link = this.watching.link();
    history.replaceState(null, "", link);
    void navigator.clipboard?.writeText(location.href).catch(() => undefined);
    this.live.textContent = `The address of this page now names the moment: ${link}`;
  }

  private say(): void {
    const { now, run, place } = this.watching;
    this.live.textContent = visible(`${seconds(now)} s: ${sentence(run.tape, place)}`);
  }

  private sayTheStage(): void {
    this.live.textContent = visible(describe(this.watching.scene(this.watching.shown)));
    this.live.classList.toggle("unseen");
  }

  private draw(): void {
    if (this.isDrawing) return;
    this.isDrawing = true;
    requestAnimationFrame(() => {
      this.isDrawing = false;
      this.drawNow();
    });
  }

  private drawNow(): void {
    const { run, place, now, mode } = this.watching, { tape } = run;
    this.drawnWidth = this.app.clientWidth;
    document.documentElement.dataset["theme"] = THEMES[this.theme];
    this.columns.classList.toggle("wide", mode === "compare");
    this.columns.classList.toggle("of-partitions", mode === "partitions");
    this.clock.textContent = `${seconds(now)} s`;
    this.sentence.replaceChildren(h("span", { class: `sign ${tape.key[place] ?? ""}`, "aria-hidden": "true" }, place < 0 ? "\u25b6" : signOf(run, place)), visible(sentence(tape, place)));
    // First, since it says what is compared.
    for (const part of [this.play, this.header, this.stage, this.transport, this.side, this.strip, this.question]) part?.draw();
  }
}

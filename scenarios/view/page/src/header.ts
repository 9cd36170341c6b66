// The top of the page: which run this is, what became of it, and what else the page can show.
import { verdictOf } from "./contract";
import { h, visible } from "./dom";
import type { Mode, Watching } from "./watching";

export interface Action { text: string; key: string; isThere: boolean; act: () => void; isOn?: () => boolean }

export class Header {
  readonly element: HTMLElement;
  private readonly title = h("h1");
  private readonly about = h("p", { class: "small muted" });
  private readonly runs = h("div", { class: "runs", role: "group", "aria-label": "Runs" });
  private readonly buttons: [HTMLElement, () => boolean][] = [];

  /** isPlayed: its runs are shown elsewhere */
  constructor(private readonly watching: Watching, actions: Action[], private readonly isPlayed: boolean) {
    const buttons = actions.filter(({ isThere }) => isThere).map(({ text, key, act, isOn }) => {
      const made = h("button", { click: act, "aria-pressed": isOn && "false" }, text, h("kbd", {}, key));
      if (isOn) this.buttons.push([made, isOn]);
      return made;
    });
    this.element = h("header", { class: "top" }, h("strong", { class: "brand" }, "highwater"),
      h("div", { class: "titles" }, this.title, this.about), this.runs, h("div", { class: "actions" }, ...buttons));
  }

  lost(isGone: boolean): void {
    this.title.dataset["state"] = isGone ? "the cluster does not answer" : "";
  }

  draw(): void {
    const { hides, run, runs } = this.watching, { head } = run;
    // The title of a scenario often names its end.
    this.title.textContent = visible(hides ? head.scenario : head.title);
    this.about.textContent = visible([head.question, ...head.built, head.era, `seed ${head.seed}`].filter(Boolean).join("  \u00b7  "));
    document.title = `${this.title.textContent} - Highwater`;
    for (const [button, isOn] of this.buttons) button.setAttribute("aria-pressed", String(isOn()));
    if (runs.length > 1 && !this.isPlayed) return this.drawRuns();
    const { kind, text } = verdictOf(head);
    this.runs.replaceChildren(h("span", { class: `pill ${hides ? "" : kind}` }, hides ? "?" : text));
  }

  /** Written anew into the same buttons, so that the one with the focus keeps it. */
  private drawRuns(): void {
    const { watching } = this, { hides, runs, shown } = watching;
    if (!this.runs.childElementCount) this.runs.replaceChildren(...runs.map((_, place) => h("button", { class: "run", click: () => watching.chooseRun(place) })));
    runs.forEach((run, place) => {
      const { kind, text } = verdictOf(run.head), button = this.runs.children[place]!;
      button.setAttribute("aria-pressed", String(place === shown));
      button.replaceChildren(h("strong", {}, run.head.label), h("span", { class: hides ? "muted" : kind }, hides ? "?" : text));
    });
  }
}

export const modeAction = (watching: Watching, mode: Mode, text: string, key: string, isThere: boolean): Action =>
  ({ text, key, isThere, act: () => watching.switchMode(mode), isOn: () => watching.mode === mode });

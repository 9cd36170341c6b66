// Beside the stage: three tabs, of which one is open.
import type { Place } from "./contract";
import { coordinatorPane } from "./coordinator_pane";
import { hasCoordinators } from "./coordinators";
import { h } from "./dom";
import { FILTERS, eventList, verdictPane, whyPane } from "./side";
import type { Tab, Watching } from "./watching";

const TABS: [Tab, string][] = [["events", "Events"], ["why", "Why?"], ["verdict", "Verdict"], ["coordinators", "Coordinators"]];

export class SideBox {
  readonly element: HTMLElement;
  private readonly body = h("div", { class: "side-body", role: "tabpanel", id: "side-body", tabindex: 0 });
  private readonly events = eventList((place) => this.seek(place));
  private readonly filters = h("div", { class: "filters" });
  private readonly tabs: [Tab, HTMLButtonElement][];
  private pane: { key: string; element: HTMLElement } | undefined;

  /** seek: the reader goes to an event by hand */
  constructor(private readonly watching: Watching, private readonly seek: (place: Place) => void) {
    this.tabs = TABS.map(([tab, text]) => [tab, h("button", { role: "tab", id: `tab-${tab}`, "aria-controls": "side-body", click: () => watching.setTab(tab), keydown: (event: KeyboardEvent) => this.turn(tab, event) }, text)]);
    for (const [filter, text] of FILTERS) this.filters.append(h("button", { class: "chip", click: () => {
      this.events.filter = filter;
      this.events.refilter();
      this.draw();
    } }, text));
    this.filters.append(h("input", { type: "search", "aria-label": "Find events", placeholder: "find", input: (event: Event) => {
      this.events.text = (event.target as HTMLInputElement).value;
      this.events.refilter();
    } }));
    this.element = h("section", { class: "side", "aria-label": "About the run" },
      h("div", { class: "tabs", role: "tablist", "aria-label": "About the run" }, ...this.tabs.map(([, button]) => button)), this.body);
  }

  /** The tape has grown, and may be another one. */
  grow(begins: boolean): void {
    this.events.refilter();
    if (begins) this.pane = undefined;
  }

  /** Arrows lead from tab to tab, as everywhere. */
  private turn(tab: Tab, event: KeyboardEvent): void {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (!step) return;
    event.stopPropagation();
    event.preventDefault();
    const there = this.tabs.filter(([, button]) => !button.hidden);
    const [next, button] = there[(there.findIndex(([one]) => one === tab) + step + there.length) % there.length]!;
    this.watching.setTab(next);
    button.focus();
  }

  draw(): void {
    const { watching, body } = this, { hides, run, shown, picked, place } = watching, isThere = hasCoordinators(run.tape);
    const tab = hides || watching.tab === "coordinators" && !isThere ? "events" : watching.tab;
    for (const [name, button] of this.tabs) {
      button.setAttribute("aria-selected", String(name === tab));
      button.tabIndex = name === tab ? 0 : -1;
      button.disabled = hides && name !== "events";
      button.hidden = name === "coordinators" && !isThere;
    }
    body.setAttribute("aria-labelledby", `tab-${tab}`);
    if (tab === "events") return this.drawEvents();
    const key = [tab, shown, picked, ...(tab === "coordinators" ? [place, watching.now] : tab === "verdict" ? watching.numbers : [])].join("/");
    if (this.pane?.key !== key) this.pane = { key, element: this.paneOf(tab) };
    if (!this.pane.element.isConnected) body.replaceChildren(this.pane.element);
  }

  private paneOf(tab: Tab): HTMLElement {
    const { watching } = this, { run, shown, now, picked } = watching;
    if (tab === "why") return whyPane(run, picked, this.seek, (record) => watching.pick(record));
    if (tab === "coordinators") return coordinatorPane(run, watching.scene(shown).cluster, watching.scenes.coordinators(shown), now);
    return verdictPane(run, watching.numbers.map((number) => watching.runs[number]!), (at) => watching.seekTime(at));
  }

  private drawEvents(): void {
    const { watching, events, filters } = this;
    if (!events.element.isConnected) this.body.replaceChildren(filters, events.element);
    [...filters.querySelectorAll("button")].forEach((button, place) => button.setAttribute("aria-pressed", String(FILTERS[place]![0] === events.filter)));
    events.show(watching.run, watching.place, watching.limit);
  }
}

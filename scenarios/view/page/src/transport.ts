// Below the stage: to step and to play, the key moments as chips, and which partition is shown.
import { sentence } from "./contract";
import { h } from "./dom";
import { type Playback, SPEEDS } from "./playback";
import { signOf } from "./side";
import { timeField } from "./time_field";
import type { Watching } from "./watching";

const CHIPS_MAX = 80;

export class Transport {
  readonly element: HTMLElement;
  private readonly play = h("button", { class: "primary play", click: () => this.playback.toggle() }, "\u25b6");
  private readonly chips = h("div", { class: "chips moments", role: "group", "aria-label": "Key moments" });
  private readonly partitions = h("select", { "aria-label": "Partition", change: (event: Event) => this.watching.choosePartition(Number((event.target as HTMLSelectElement).value)) });
  private chipsKey = "";

  constructor(private readonly watching: Watching, private readonly playback: Playback) {
    const { head, tape } = watching.run;
    const control = (text: string, label: string, act: () => void): HTMLElement => h("button", { "aria-label": label, title: label, click: act }, text);
    const speed = h("select", { "aria-label": "Speed", change: (event: Event) => { playback.speed = Number((event.target as HTMLSelectElement).value); } },
      ...SPEEDS.map(([value, text]) => h("option", { value }, text)));
    const goTo = timeField("Go to a time, in seconds", "go to ... s", "", (time, field) => {
      if (time === null) return;
      field.value = "";
      // The keys are for the page again.
      field.blur();
      playback.pause();
      watching.goTo(time);
    });
    this.element = h("div", { class: "transport" },
      control("|\u2039", "Key moment before (Page Up)", () => playback.keyMoment(-1)), control("\u2039", "Event before (left arrow)", () => playback.step(-1)), this.play,
      control("\u203a", "Next event (right arrow)", () => playback.step(1)), control("\u203a|", "Next key moment (Page Down)", () => playback.keyMoment(1)),
      speed, goTo, (head.live || tape.partitions.length > 1) && this.partitions, this.chips);
  }

  draw(): void {
    this.play.textContent = this.playback.isOn ? "\u2016" : "\u25b6";
    this.play.setAttribute("aria-label", this.playback.isOn ? "Pause (space)" : "Play (space)");
    this.listPartitions();
    this.partitions.value = String(this.watching.partition);
    this.drawChips();
  }

  private listPartitions(): void {
    const { partitions } = this.watching.run.tape, before = this.partitions.length;
    if (before && partitions[0] !== this.partitions.options[0]!.text || before > partitions.length) this.partitions.replaceChildren();
    for (let place = this.partitions.length; place < partitions.length; place += 1) this.partitions.append(h("option", { value: place }, partitions[place]));
  }

  private drawChips(): void {
    const { run, limit, place: here, shown } = this.watching, { tape } = run;
    const places = tape.key.flatMap((sign, place) => (sign && tape.at[place]! > 0 && place <= limit ? [place] : [])).slice(0, CHIPS_MAX);
    const current = places.filter((place) => place <= here).at(-1), key = `${shown}/${places.length}/${current}`;
    if (key === this.chipsKey) return;
    this.chipsKey = key;
    this.chips.replaceChildren(...places.map((place) => h("button", { class: `chip ${tape.key[place]}${place === current ? " on" : ""}`, title: sentence(tape, place), click: () => {
      this.playback.pause();
      this.watching.seek(place);
    } }, `${signOf(run, place)} ${tape.texts[tape.short[place]!]}`)));
    const on = this.chips.querySelector<HTMLElement>(".on");
    if (on) this.chips.scrollLeft = on.offsetLeft - this.chips.clientWidth / 2;
  }
}

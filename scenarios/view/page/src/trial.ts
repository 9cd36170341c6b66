// Plays a step at many times of the run, and colours a strip by what would be lost, had it happened then.
import { seconds } from "./contract";
import { h } from "./dom";

const TRIES = 24, BEGIN = "Try other times";

/** verdict, lost: of the run with the step at that time */
interface Judged { error?: string; verdict?: string[]; lost?: number }

export class Trial {
  readonly strip = h("div", { class: "tried" });
  readonly button = h("button", { click: () => void this.toggle() }, BEGIN);
  private isOn = false;

  constructor(private readonly end: number, private readonly judge: (at: number) => Promise<Judged>, private readonly fail: (why: string) => void) {}

  private toggle(): Promise<void> | undefined {
    if (!this.isOn) return this.run();
    this.isOn = false;
    // Until the last answer is there, it cannot begin again.
    this.button.disabled = true;
    return undefined;
  }

  private async run(): Promise<void> {
    const cells = Array.from({ length: TRIES }, () => h("i"));
    this.strip.replaceChildren(...cells);
    this.isOn = true;
    for (let number = 0; number < TRIES && this.isOn; number += 1) {
      this.button.textContent = `Stop (${number} of ${TRIES} played)`;
      const at = Math.round(((number + 0.5) * this.end) / TRIES / 1e3) * 1e3, answer = await this.judge(at);
      if (answer.verdict) cells[number]!.replaceWith(cellOf(at, answer.verdict, answer.lost ?? 0));
      else {
        this.fail(answer.error ?? "");
        break;
      }
    }
    this.isOn = this.button.disabled = false;
    this.button.textContent = BEGIN;
  }
}

function cellOf(at: number, verdict: string[], lost: number): HTMLElement {
  const good = verdict.every((word) => word === "ok");
  return h("i", { class: good ? "good-time" : "bad-time", title: `${seconds(at)} s: ${good ? "nothing lost" : lost ? `${lost} lost` : verdict.join(", ")}` }, good ? "\u2713" : "\u2715");
}

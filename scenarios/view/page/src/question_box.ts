// Where predict mode asks: one question at a time, and the score.
import { h } from "./dom";
import type { Playback } from "./playback";
import type { Watching } from "./watching";

export class QuestionBox {
  readonly element = h("div", { class: "ask" });
  private key = "";

  constructor(private readonly watching: Watching, private readonly playback: Playback) {}

  draw(): void {
    const { watching, element } = this, { prediction, run, place, limit, shown } = watching;
    const open = prediction.isOn && place >= limit ? prediction.open(run, place) : undefined;
    const key = open ? `${shown}/${open.number}` : prediction.isOn ? "on" : "off";
    if (this.key === key && open) return;
    // An answer is read before the next question, which may stand at the same moment.
    if (element.querySelector(".result button") && prediction.isOn) return;
    this.key = key;
    if (!prediction.isOn) element.replaceChildren();
    else if (open) {
      element.replaceChildren(prediction.form(run, open.number, () => this.goOn(open.question[0])));
      element.querySelector("input")?.focus({ preventScroll: true });
      element.scrollIntoView({ block: "nearest" });
    } else element.replaceChildren(h("p", { class: "score" }, this.score()));
  }

  private score(): string {
    const { prediction, run, runs } = this.watching, { right, of } = prediction.score(), next = runs.findIndex((one) => !prediction.isOver(one));
    if (!prediction.isOver(run)) return `Predict: play or step; the page stops and asks. ${right} of ${of} right so far.`;
    if (next < 0) return `Predicted: ${right} of ${of} right. Play on, or press h to leave.`;
    return `${right} of ${of} right so far. Press ${next + 1}: ${runs[next]!.head.label} asks, too. Or press h to leave.`;
  }

  /** After an answer: to the next question, or on to the end. */
  private goOn(place: number): void {
    this.key = "";
    this.element.replaceChildren();
    this.watching.seek(place);
    if (this.watching.place < this.watching.limit && !this.playback.isOn) this.playback.toggle();
  }
}

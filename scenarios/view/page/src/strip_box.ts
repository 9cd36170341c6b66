// The time strip on the page: drawn anew only when it shows something else, and what the pointer does on it.
import { seconds, sentence } from "./contract";
import { h, s, visible } from "./dom";
import { type StepMark, drawStrip, playhead, timeAt, xOf } from "./strip";
import type { Watching } from "./watching";

/** Less than this much of a drag is a click. */
const DRAG_PX = 8;

export class StripBox {
  readonly element = h("div", { class: "strip-box", tabindex: 0, role: "slider", "aria-label": "Time", "aria-orientation": "horizontal" });
  private key = "";
  /** What is dragged to another time, and from where. */
  private dragged: { step: StepMark; mark: SVGGElement; x: number } | undefined;

  /** steps: of a run that is played on     move: returns once a step has moved, or could not */
  constructor(private readonly watching: Watching, private readonly steps: () => StepMark[] = () => [], private readonly move?: (index: number, at: number) => Promise<void>) {
    const { element } = this;
    let from: number | undefined;
    element.addEventListener("pointerdown", (event) => {
      if (!this.take(event)) from = this.timeOf(event);
    });
    element.addEventListener("pointermove", (event) => this.drag(event));
    element.addEventListener("pointercancel", () => this.putBack());
    element.addEventListener("pointerup", (event) => {
      if (this.dragged) return void this.drop(event);
      if (from === undefined) return;
      const to = this.timeOf(event), width = element.clientWidth;
      const moved = Math.abs(xOf(watching.window, width, to) - xOf(watching.window, width, from));
      if (moved > DRAG_PX) watching.zoomTo(Math.min(from, to), Math.max(from, to)); else watching.seekTime(to);
      from = undefined;
    });
    element.addEventListener("dblclick", () => watching.zoomTo(0, watching.run.tape.end_us));
    element.addEventListener("wheel", (event) => {
      event.preventDefault();
      if (event.shiftKey) watching.pan(Math.sign(event.deltaY || event.deltaX) * 0.1); else watching.zoom(event.deltaY > 0 ? 1.25 : 0.8, this.timeOf(event));
    }, { passive: false });
  }

  private take(event: PointerEvent): boolean {
    const mark = (event.target as Element).closest<SVGGElement>("[data-step]"), step = this.steps().find(({ index }) => String(index) === mark?.dataset["step"]);
    if (!mark || !step) return false;
    this.dragged = { step, mark, x: event.clientX };
    if (this.move) this.element.setPointerCapture(event.pointerId);
    return true;
  }

  private drag(event: PointerEvent): void {
    if (!this.dragged || !this.move) return;
    const { mark } = this.dragged, at = this.timeIn(event), x = xOf(this.watching.window, this.element.clientWidth, at);
    mark.setAttribute("transform", mark.getAttribute("transform")!.replace(/\(\S+/, `(${x}`));
    mark.querySelector("title")!.textContent = `${seconds(at)} s`;
    this.element.firstElementChild!.querySelector(".dragged-to")?.remove();
    this.element.firstElementChild!.append(s("text", { class: "small mono strong dragged-to", x: x + 14, y: Number(/ (\S+)\)/.exec(mark.getAttribute("transform")!)![1]) + 4 }, `${seconds(at)} s`));
  }

  /** Let go: the step moves; on the place where it was, that is a click. */
  private async drop(event: PointerEvent): Promise<void> {
    const { step, x } = this.dragged!;
    this.dragged = undefined;
    if (!this.move || Math.abs(event.clientX - x) <= DRAG_PX) this.watching.seekTime(step.at);
    else await this.move(step.index, this.timeIn(event));
    this.putBack();
  }

  /** Draws every step where it is. */
  private putBack(): void {
    this.dragged = undefined;
    this.key = "";
    this.draw();
  }

  /** Within the run. */
  private timeIn(event: MouseEvent): number {
    return Math.max(0, Math.min(this.watching.run.tape.end_us, Math.round(this.timeOf(event) / 1e3) * 1e3));
  }

  private timeOf(event: MouseEvent): number {
    return timeAt(this.watching.window, this.element.clientWidth, event.clientX - this.element.getBoundingClientRect().left);
  }

  draw(): void {
    const { run, shown, partition, window, now, place, limit, prediction, scenes } = this.watching, { tape } = run, { element } = this;
    const width = element.clientWidth || 900, hidesAfter = prediction.isOn && limit < tape.at.length - 1 ? tape.at[limit] ?? 0 : tape.end_us;
    if (this.dragged) return;
    const steps = this.steps(), key = [shown, partition, window.from, window.to, width, hidesAfter, tape.at.length, ...steps.map(({ at }) => at)].join("/");
    if (key !== this.key) {
      this.key = key;
      element.replaceChildren(drawStrip({ run, series: scenes.series(shown, partition), coordinators: scenes.coordinators(shown), partition: tape.partitions[partition] ?? "", window, now, hidesAfter, end: tape.end_us, steps }, width));
    } else {
      const svg = element.firstElementChild!;
      svg.querySelector(".playhead")?.remove();
      if (now >= window.from && now <= window.to) svg.append(playhead(xOf(window, width, now), Number(svg.getAttribute("height"))));
    }
    element.setAttribute("aria-valuemin", "0");
    element.setAttribute("aria-valuemax", String(tape.end_us / 1e6));
    element.setAttribute("aria-valuenow", seconds(now));
    element.setAttribute("aria-valuetext", visible(`${seconds(now)} seconds, ${sentence(tape, place)}`));
  }
}

// The time strip on the page: drawn anew only when it shows something else, and what the pointer does on it.
import { seconds, sentence } from "./contract";
import { h, visible } from "./dom";
import { drawStrip, playhead, timeAt, xOf } from "./strip";
import type { Watching } from "./watching";

/** Less than this much of a drag is a click. */
const DRAG_PX = 8;

export class StripBox {
  readonly element = h("div", { class: "strip-box", tabindex: 0, role: "slider", "aria-label": "Time", "aria-orientation": "horizontal" });
  private key = "";

  constructor(private readonly watching: Watching) {
    const { element } = this;
    let from: number | undefined;
    element.addEventListener("pointerdown", (event) => { from = this.timeOf(event); });
    element.addEventListener("pointerup", (event) => {
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

  private timeOf(event: MouseEvent): number {
    return timeAt(this.watching.window, this.element.clientWidth, event.clientX - this.element.getBoundingClientRect().left);
  }

  draw(): void {
    const { run, shown, partition, window, now, place, limit, prediction, scenes } = this.watching, { tape } = run, { element } = this;
    const width = element.clientWidth || 900, hidesAfter = prediction.isOn && limit < tape.at.length - 1 ? tape.at[limit] ?? 0 : tape.end_us;
    const key = [shown, partition, window.from, window.to, width, hidesAfter, tape.at.length].join("/");
    if (key !== this.key) {
      this.key = key;
      element.replaceChildren(drawStrip({ run, series: scenes.series(shown, partition), coordinators: scenes.coordinators(shown), partition: tape.partitions[partition] ?? "", window, now, hidesAfter, end: tape.end_us }, width));
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

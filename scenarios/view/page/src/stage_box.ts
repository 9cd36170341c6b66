// The middle of the page: the stage of one run, several runs side by side, or all partitions.
import { comparePane } from "./compare";
import { hasTransactions } from "./coordinators";
import { h } from "./dom";
import { type Overview, overviewPane } from "./overview";
import { drawStage, fitWords, legend } from "./stage";
import type { Watching } from "./watching";

export class StageBox {
  readonly element: HTMLElement;
  private readonly stage = h("div", { class: "stage-box" });
  private overview: Overview | undefined;
  private legend: HTMLElement | undefined;

  /** choose: a node, a link or the partition was clicked */
  constructor(private readonly watching: Watching, choose?: (name: string) => void) {
    this.element = h("div", { class: choose ? "stage-column played" : "stage-column" }, this.stage);
    this.stage.addEventListener("click", (event) => {
      const record = Number((event.target as Element).closest("[data-record]")?.getAttribute("data-record") ?? -1);
      if (record >= 0) return watching.pick(record);
      const clicked = (event.target as Element).closest("[data-target], [data-node]"), name = clicked?.getAttribute("data-target") ?? clicked?.getAttribute("data-node");
      if (name) choose?.(name);
    });
  }

  draw(): void {
    const { watching, stage } = this, { mode, runs, shown, hides } = watching, width = stage.clientWidth || 800;
    this.drawLegend(runs.some(({ tape }) => hasTransactions(tape)));
    if (mode === "partitions") return this.drawPartitions();
    const drawn = mode === "one" ? drawStage(watching.scene(shown), width)
      : comparePane(watching.compared.map((place, seat) => ({ place, run: runs[place]!, label: watching.labels[seat] ?? runs[place]!.head.label, scene: watching.scene(place), differs: watching.differs === undefined ? runs[place]!.differs : watching.differs })), shown, width, hides, (place) => watching.chooseRun(place), (at) => watching.seekTime(at));
    stage.replaceChildren(drawn);
    fitWords(drawn);
  }

  /** A cluster that is running may begin without transactions. */
  private drawLegend(withTransactions: boolean): void {
    if (this.legend && this.legend.dataset["transactions"] === String(withTransactions)) return;
    this.legend?.remove();
    this.element.append((this.legend = legend(withTransactions)));
    this.legend.dataset["transactions"] = String(withTransactions);
  }

  /** Kept, as long as only the moment changes: it has a row for each of perhaps hundreds of partitions. */
  private drawPartitions(): void {
    const { watching, stage } = this, { run, shown, now, hides } = watching, { tape } = run;
    const limit = hides ? now : tape.end_us, key = [shown, limit, tape.at.length].join("/"), before = this.overview;
    if (before?.key !== key) this.overview = overviewPane(key, run, watching.scenes.standings(shown), limit, (partition) => watching.choosePartition(partition));
    const { element, show } = this.overview!, top = before?.element.scrollTop ?? 0;
    show(watching.scene(shown).cluster, now);
    if (element.parentElement === stage) return;
    stage.replaceChildren(element);
    element.scrollTop = top;
  }
}

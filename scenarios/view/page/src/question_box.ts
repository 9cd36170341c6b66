// Where predict mode asks: one question at a time, what was right, and at the end a sheet to print or to hand in.
import { type Place, type Question, type Run, seconds } from "./contract";
import { h } from "./dom";
import type { Playback } from "./playback";
import type { Answered } from "./predict";
import type { Watching } from "./watching";

export class QuestionBox {
  /** Beside the stage, which stays in sight. */
  readonly element = h("div", { class: "ask" });
  readonly sheet = h("div");
  private key = "";
  /** Answers that the reader has been told of. */
  private readonly told = new Set<Question>();
  private readonly student = h("input", { id: "student", autocomplete: "off", input: () => this.says.replaceChildren() });
  private readonly says = h("span", { class: "bad", role: "alert" });

  constructor(private readonly watching: Watching, private readonly playback: Playback) {}

  draw(): void {
    const { watching, element } = this, { prediction, run, place, limit, shown } = watching;
    const open = prediction.isOn && place >= limit ? prediction.open(run, place) : undefined;
    const key = open ? `${shown}/${open.number}` : prediction.isOn ? `on/${shown}/${prediction.answered().length}` : "off";
    if (this.key === key) return;
    // An answer is read before the next question, which may stand at the same moment.
    if (element.querySelector(".result button") && prediction.isOn) return;
    this.key = key;
    this.sheet.replaceChildren(...(prediction.isOn && !open && prediction.isOver(run) ? [this.drawSheet()] : []));
    if (!prediction.isOn) {
      this.told.clear();
      element.replaceChildren();
    } else if (open) {
      element.replaceChildren(this.form(run, open.question, open.number));
      element.querySelector("input")?.focus({ preventScroll: true });
      element.scrollIntoView({ block: "nearest" });
    } else element.replaceChildren(h("p", { class: "score" }, this.score(), " ", this.sheet.hasChildNodes() && h("button", { click: () => this.toName() }, "Print it or save it as CSV")));
  }

  private form(run: Run, question: Question, number: number): HTMLElement {
    const [before, ask, options] = question, result = h("div", { class: "result", role: "status" });
    const send = h("button", { type: "submit", class: "primary" }, "Answer");
    const form = h("form", { class: "question", submit: (event: Event) => {
      event.preventDefault();
      const chosen = new FormData(form).get("answer");
      if (chosen === null) return void result.replaceChildren("Choose one.");
      this.watching.prediction.answer(run, number, Number(chosen));
      for (const input of form.querySelectorAll("input")) input.disabled = true;
      send.remove();
      const isTold = this.watching.prediction.isTold(run, number);
      const next = h("button", { type: "button", class: "primary", click: () => this.goOn(before) }, isTold ? "See it happen" : "Go on");
      result.replaceChildren(...this.news(run, question), next);
      next.focus();
      form.scrollIntoView({ block: "nearest" });
    } },
      h("fieldset", {}, h("legend", {}, ask), ...options.map((option, place) => h("label", { class: "option" }, h("input", { type: "radio", name: "answer", value: place }), ` ${option}`))), send, result);
    return form;
  }

  /** What may be told now: of this question, and of earlier ones that had to wait. */
  private news(run: Run, question: Question): HTMLElement[] {
    const fresh = this.watching.prediction.answered().filter((answered) => answered.isTold && answered.run === run && !this.told.has(answered.question));
    for (const answered of fresh) this.told.add(answered.question);
    fresh.sort((one, other) => Number(other.question === question) - Number(one.question === question));
    const found = fresh.map((answered) => h("div", {}, answered.question !== question && h("p", { class: "earlier" }, answered.question[1]), ...judged(answered)));
    if (fresh.some((answered) => answered.question === question)) return found;
    return [h("p", { class: "strong" }, `Noted. The run shows it by ${seconds(run.tape.at[question[5]] ?? 0)} s; what is right is told once no other question depends on it.`), ...found];
  }

  private score(): string {
    const { prediction, run, runs } = this.watching, { right, of } = prediction.score(), next = runs.findIndex((one) => !prediction.isOver(one));
    const waiting = prediction.answered().length - of, words = `${right} of ${of} right so far${waiting ? `, ${waiting} not told yet` : ""}`;
    if (!prediction.isOver(run)) return `Predict: play or step; the page stops and asks. ${words}.`;
    if (next < 0) return `Predicted: ${right} of ${of} right. Play on, or press h to leave.`;
    return `${words}. Press ${next + 1}: ${runs[next]!.head.label} asks, too. Or press h to leave.`;
  }

  /** What was asked, answered and right, of every run so far. */
  private drawSheet(): HTMLElement {
    const { prediction, runs, run: { head } } = this.watching, { right, of } = prediction.score(), several = runs.length > 1;
    const rows = prediction.answered().filter(({ isTold }) => isTold).map(({ run, question: [before, ask, options, answer, because], chosen }) => h("tr", {},
      several && h("td", {}, run.head.label), h("td", { class: "mono at" }, `${seconds(run.tape.at[before] ?? 0)} s`), h("td", {}, ask), h("td", { "data-label": "Your answer: " }, options[chosen]!),
      h("td", { "data-label": "The run: " }, options[answer]!, h("p", { class: "small because" }, `${because}.`)), h("td", { class: chosen === answer ? "good strong" : "strong" }, chosen === answer ? "\u2713 right" : "wrong")));
    const names = [...(several ? ["Run"] : []), "Before", "Question", "Your answer", "What the run shows", ""];
    return h("section", { class: "sheet", "aria-label": "Sheet" }, h("h2", {}, `Predictions: ${head.scenario}`),
      h("p", {}, h("label", { for: "student" }, "Name"), " ", this.student, " ", this.says, h("strong", {}, `${right} of ${of} right`)),
      h("p", { class: "small" }, [...head.built, head.era, `seed ${head.seed}`].join("  \u00b7  ")),
      h("div", { class: "sheet-table" }, h("table", {}, h("thead", {}, h("tr", {}, ...names.map((name) => (name ? h("th", { scope: "col" }, name) : h("td", {}))))), h("tbody", {}, ...rows))),
      h("p", { class: "sheet-actions" }, h("button", { click: () => print() }, "Print"), h("button", { click: () => this.save() }, "Save as CSV")));
  }

  /** The sheet is below all else. */
  private toName(): void {
    this.sheet.scrollIntoView({ block: "center" });
    this.student.focus({ preventScroll: true });
  }

  private save(): void {
    if (!this.student.value.trim()) {
      this.says.textContent = "Write your name first.";
      return this.toName();
    }
    const { prediction, run: { head } } = this.watching;
    const lines = [["student", "scenario", "run", "seed", "at_s", "question", "answer", "right_answer", "right"], ...prediction.answered().filter(({ isTold }) => isTold).map(({ run, question: [before, ask, options, answer], chosen }) =>
      [this.student.value, head.scenario, run.head.label, String(run.head.seed), seconds(run.tape.at[before] ?? 0), ask, options[chosen]!, options[answer]!, chosen === answer ? "yes" : "no"])];
    const text = lines.map((line) => line.map(quoted).join(",")).join("\r\n");
    const link = h("a", { href: URL.createObjectURL(new Blob([`${text}\r\n`], { type: "text/csv" })), download: `predict-${head.scenario}.csv` });
    link.click();
    URL.revokeObjectURL(link.href);
  }

  /** After an answer: to the next question, or on to the end. */
  private goOn(place: Place): void {
    this.key = "";
    this.element.replaceChildren();
    this.watching.seek(place);
    if (this.watching.place < this.watching.limit && !this.playback.isOn) this.playback.toggle();
  }
}

function judged({ question: [, , options, answer, because], chosen }: Answered): HTMLElement[] {
  const right = chosen === answer;
  return [h("p", { class: right ? "good strong" : "bad strong" }, right ? "\u2713 Right." : `No: ${options[answer]}.`), h("p", {}, `${because}.`)];
}

/** A cell of a CSV file. A quote before what a spreadsheet would take for a formula. */
function quoted(text: string): string {
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return `"${safe.replaceAll('"', '""')}"`;
}

// Predict: the page stops before a decisive moment, asks, takes the answer, then shows what happened.
import type { Place, Question, Run } from "./contract";
import { h } from "./dom";

export class Prediction {
  isOn = false;
  /** answers by run and question */
  private readonly answers = new Map<string, number>();

  constructor(private readonly runs: Run[]) {}

  private key(run: Run, place: number): string { return `${this.runs.indexOf(run)}/${place}`; }

  /** The first question without an answer that stands at or before `place`. */
  open(run: Run, place: Place): { question: Question; number: number } | undefined {
    if (!this.isOn) return undefined;
    const number = run.questions.findIndex((question, at) => question[0] <= place + 1 && !this.answers.has(this.key(run, at)));
    return number < 0 ? undefined : { question: run.questions[number]!, number };
  }

  /** How far one may go now: to the next question without an answer. */
  barrier(run: Run): Place {
    const next = this.isOn ? run.questions.find((_, at) => !this.answers.has(this.key(run, at))) : undefined;
    return next ? next[0] - 1 : run.tape.at.length - 1;
  }

  isOver(run: Run): boolean { return run.questions.every((_, at) => this.answers.has(this.key(run, at))); }

  start(): void {
    this.isOn = true;
    this.answers.clear();
  }

  score(): { right: number; of: number } {
    let right = 0, of = 0;
    this.runs.forEach((run) => run.questions.forEach((question, at) => {
      const answer = this.answers.get(this.key(run, at));
      if (answer === undefined) return;
      of += 1;
      if (answer === question[3]) right += 1;
    }));
    return { right, of };
  }

  /** The question as a form. done: called when the reader goes on */
  form(run: Run, number: number, done: () => void): HTMLElement {
    const [, ask, options, answer, because] = run.questions[number]!;
    const result = h("div", { class: "result", role: "status" });
    const send = h("button", { type: "submit", class: "primary" }, "Answer");
    const form = h("form", { class: "question", submit: (event: Event) => {
      event.preventDefault();
      const chosen = new FormData(form).get("answer");
      if (chosen === null) return void result.replaceChildren("Choose one.");
      this.answers.set(this.key(run, number), Number(chosen));
      const right = Number(chosen) === answer;
      for (const input of form.querySelectorAll("input")) input.disabled = true;
      send.remove();
      const next = h("button", { type: "button", class: "primary", click: done }, "See it happen");
      result.replaceChildren(h("p", { class: right ? "good strong" : "bad strong" }, right ? "\u2713 Right." : `\u2715 No: ${options[answer]}.`), h("p", {}, `${because}.`), next);
      next.focus();
      form.scrollIntoView({ block: "nearest" });
    } },
      h("fieldset", {}, h("legend", {}, ask), ...options.map((option, place) => h("label", { class: "option" }, h("input", { type: "radio", name: "answer", value: place }), ` ${option}`))), send, result);
    return form;
  }
}

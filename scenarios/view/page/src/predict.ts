// Predict: the page stops before a decisive moment, asks, takes the answer, and tells what was right as soon as that
// gives no other answer away.
import { type Place, type Question, type Run, NOTHING } from "./contract";

/** An answer that was given. isTold: the page may say by now what was right */
export interface Answered { run: Run; number: number; question: Question; chosen: number; isTold: boolean }

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
    const next = this.isOn ? this.next(run) : undefined;
    return next ? next[0] - 1 : run.tape.at.length - 1;
  }

  private next(run: Run): Question | undefined { return run.questions.find((_, at) => !this.answers.has(this.key(run, at))); }

  isOver(run: Run): boolean { return this.next(run) === undefined; }

  start(): void {
    this.isOn = true;
    this.answers.clear();
  }

  answer(run: Run, number: number, chosen: number): void { this.answers.set(this.key(run, number), chosen); }

  /** Whether no question that is still to be asked stands before the moment at which the run shows this answer. */
  isTold(run: Run, number: number): boolean {
    const next = this.next(run);
    return next === undefined || next[0] > run.questions[number]![5];
  }

  /** All answers, in the order of runs and questions. */
  answered(): Answered[] {
    return this.runs.flatMap((run) => run.questions.flatMap((question, number): Answered[] => {
      const chosen = this.answers.get(this.key(run, number)) ?? NOTHING;
      return chosen === NOTHING ? [] : [{ run, number, question, chosen, isTold: this.isTold(run, number) }];
    }));
  }

  /** Of what was told. */
  score(): { right: number; of: number } {
    const told = this.answered().filter(({ isTold }) => isTold);
    return { right: told.filter(({ question, chosen }) => chosen === question[3]).length, of: told.length };
  }
}

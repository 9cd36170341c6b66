// Play and pause: moves the reader on, frame by frame.
import { NOTHING } from "./contract";
import type { Watching } from "./watching";

/** Virtual seconds for each second of watching; 0: one event after the other */
export const SPEEDS: [number, string][] = [[0, "event by event"], [0.001, "1/1000"], [0.01, "1/100"], [0.1, "1/10"], [1, "real time"], [10, "10 times"]];
const EVENT_MS = 180, KEY_MOMENT_MS = 1600, FRAME_MS_MAX = 100;

export class Playback {
  speed = 0;
  private frame = 0;

  /** changed: playing has begun or ended */
  constructor(private readonly watching: Watching, private readonly changed: () => void) {}

  get isOn(): boolean { return this.frame !== 0; }

  toggle(): void {
    if (this.isOn) return this.pause();
    const { watching } = this;
    if (watching.isAtEnd) watching.seek(NOTHING);
    let before = performance.now(), waited = 0;
    const tick = (time: number): void => {
      const passed = Math.min(FRAME_MS_MAX, time - before);
      before = time;
      if (this.speed === 0) {
        waited += passed;
        if (waited > (watching.run.tape.key[watching.place] ? KEY_MOMENT_MS : EVENT_MS)) {
          waited = 0;
          watching.seek(watching.place + 1);
        }
      } else watching.seekTime(watching.now + passed * 1000 * this.speed);
      if (this.mustStop()) return this.pause();
      if (this.isOn) this.frame = requestAnimationFrame(tick);
    };
    this.frame = requestAnimationFrame(tick);
    this.changed();
  }

  /** At a question, or at the end: in real time, the run goes on after its last event. */
  private mustStop(): boolean {
    const { watching, speed } = this, { tape } = watching.run;
    return watching.place >= watching.limit && (speed === 0 || watching.limit < tape.at.length - 1 || watching.now >= tape.end_us);
  }

  pause(): void {
    if (!this.isOn) return;
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    this.changed();
  }

  /** Moves by hand. */
  step(by: number): void {
    this.pause();
    this.watching.seek(this.watching.place + by);
  }

  keyMoment(by: number): void {
    this.pause();
    this.watching.seekKeyMoment(by);
  }
}

// On the logs of the stage: how transactions ended, their markers, and the last stable offset.
import { NOTHING } from "./contract";
import { FENCED_SIGN } from "./coordinator_rows";
import { h, s } from "./dom";
import { ABORTED, type Ending, type Marker, OPEN } from "./fold";

const COMMIT_SIGN = "\u2713", ABORT_SIGN = "\u2298";

/** In the cell of a marker, instead of a record's name and its epoch. */
export const markerWords = ({ isCommit }: Marker): [sign: string, word: string] => (isCommit ? [COMMIT_SIGN, "commit"] : [ABORT_SIGN, "abort"]);

export const endingClass = (ending: Ending | undefined): string => (ending === ABORTED ? " aborted" : ending === OPEN ? " open" : "");

/** Over and under a cell, so that no colour is needed to tell them apart. x, y: its corner */
export function drawEnding(group: SVGGElement, ending: Ending | undefined, x: number, y: number, width: number, height: number): void {
  if (ending === ABORTED) group.append(s("line", { class: "strike", x1: x + 3, x2: x + width - 3, y1: y + height - 4, y2: y + 4 }));
  if (ending === OPEN) group.append(s("line", { class: "open-bar", x1: x, x2: x + width, y1: y + height + 2.5, y2: y + height + 2.5 }));
}

/** The last stable offset, where it is below the high watermark. left: of the log     returns: where the next flag may begin */
export function drawStable(group: SVGGElement, stable: number, x: number, cellY: number, left: number): number {
  if (stable === NOTHING) return left - 6;
  const text = `LSO ${stable}`, width = text.length * 9 + 8, start = Math.max(left - 6, x - width + 1);
  group.append(s("line", { class: "flag stable", x1: x, x2: x, y1: cellY - 10, y2: cellY + 44 }), s("rect", { class: "stable-flag", x: start, y: cellY + 40, width, height: 15 }),
    s("text", { class: "flag-text stable", x: start + 4, y: cellY + 52 }, text));
  return start + width + 3;
}

export function transactionsLegend(): HTMLElement[] {
  const item = (kind: string, words: string): HTMLElement => h("span", { class: "legend-item" }, h("i", { class: `swatch ${kind}` }), words);
  return [item("open", "in an open transaction"), item("aborted", "aborted: left out by read_committed"), h("span", { class: "legend-item" }, `${COMMIT_SIGN} commit, ${ABORT_SIGN} abort: marker of a transaction's end, ${FENCED_SIGN} by the coordinator itself`),
    item("stable", "LSO, last stable offset, where it is below HW")];
}

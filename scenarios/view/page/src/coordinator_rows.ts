// On the time strip: a row for each transactional.id, and for each group its generations and who is to read which partition.
import { type Tape, nameOf, NOTHING, seconds } from "./contract";
import { type CoordinatorSeries, GONE, type GroupSeries, type StateSpan, idleWord, inOrder, memberName, phaseWord, readings, stateLook } from "./coordinators";
import { fitted, s } from "./dom";
import { NO_MEMBERS, REBALANCING } from "./fold";
import { lettersIn, nameText, toldApart } from "./names";
import type { Step } from "./series";

/** The coordinator has ended the transaction by itself. */
export const FENCED_SIGN = "\u25b2";

const ROW = 17, TRANSACTIONS_MAX = 6, PARTITIONS_MAX = 6, GROUPS_MAX = 3, LETTER = 6.4;

interface Row { name: string; kind: "txn" | "group" | "own"; spans: Span[] }
/** mark: a sign at its begin     who: a name with which the label begins */
interface Span { from: number; to: number; kind: string; label: string; title: string; isThin: boolean; mark?: string; who?: string }

/** clip: between which times     xAt: of a time on the strip */
export interface RowsScene { tape: Tape; series: CoordinatorSeries; partition: string; from: number; to: number; end: number; xAt: (at: number) => number }

export function rowsOf({ tape, series, partition, end }: RowsScene): Row[] {
  const rows = series.transactions.slice(0, TRANSACTIONS_MAX).map((spans, id): Row => ({ name: tape.txns![id]!, kind: "txn", spans: spans.map((span, place) => ofState(tape, span, spans[place + 1]?.from ?? end, spans[place - 1]?.fences ?? false)) }));
  series.groups.slice(0, GROUPS_MAX).forEach((group, place) => {
    rows.push({ name: tape.groups![place]!, kind: "group", spans: phases(group, end) });
    for (const [which, steps] of ownersFirst(tape, group, partition)) rows.push({ name: tape.assigned![which]!, kind: "own", spans: owned(tape, series, steps, end) });
  });
  return rows;
}

/** The partition on the stage first. */
const ownersFirst = (tape: Tape, group: GroupSeries, partition: string): [number, Step[]][] =>
  [...group.owners].sort(([one], [other]) => Number(tape.assigned![other] === partition) - Number(tape.assigned![one] === partition) || inOrder(tape, one, other)).slice(0, PARTITIONS_MAX);

function ofState(tape: Tape, { from, state, node, producer, epoch, fences }: StateSpan, to: number, isFenced: boolean): Span {
  const look = stateLook(state), word = look?.word ?? "?";
  return { from, to, kind: look?.kind ?? "empty", label: look?.isThin ? "" : `${word}, epoch ${epoch}`, isThin: look?.isThin ?? false, mark: word.startsWith("Complete") ? `${isFenced ? FENCED_SIGN : ""}${look!.sign}` : undefined,
    title: `${word}, producer id ${producer}, epoch ${epoch}, coordinator ${nameOf(tape, node)}${fences ? ", ended by the coordinator" : ""}` };
}

const phases = ({ phases }: GroupSeries, end: number): Span[] => phases.map(({ from, phase, generation }, place) => ({
  from, to: phases[place + 1]?.from ?? end, isThin: phase === NO_MEMBERS, label: phase === NO_MEMBERS ? "" : phase === REBALANCING ? "rebalancing" : `generation ${generation}`,
  kind: phase === REBALANCING ? "rebalancing" : phase === NO_MEMBERS ? "empty" : "generation", title: `${phaseWord(phase)}, generation ${generation}`,
}));

const owned = (tape: Tape, series: CoordinatorSeries, steps: readonly Step[], end: number): Span[] => readings(tape, series, steps).flatMap(({ from, owner, state }, place, all) => {
  if (owner === GONE) return [];
  const to = all[place + 1]?.from ?? end, isRead = owner !== NOTHING, who = isRead ? memberName(tape, owner) : "no member", idle = isRead ? idleWord(state) : "";
  if (idle) return [{ from, to, isThin: false, who, label: `${who}, ${idle}`, kind: "unread", title: `${who} is to read it, and is ${idle}, for ${seconds(to - from)} s` }];
  return [{ from, to, isThin: false, who: isRead ? who : undefined, label: who, kind: isRead ? `member member-${owner % 4}` : "unread", title: isRead ? `${who} is to read it` : `no member is to read it, for ${seconds(to - from)} s` }];
});

export const heightOf = (rows: readonly Row[]): number => rows.length * ROW + (rows.length ? 4 : 0);

/** labelX: where names of rows may end */
export function drawRows(root: SVGSVGElement, rows: readonly Row[], { tape, from, to, xAt }: RowsScene, top: number, labelX: number): void {
  const members = (tape.members ?? []).map((_, member) => memberName(tape, member));
  const labelOf = ({ label, who }: Span, room: number): string => {
    if (who === undefined || label.length <= lettersIn(room, LETTER)) return fitted(label, room, LETTER);
    const short = toldApart([who], Math.max(2, lettersIn(room, LETTER) - 2), members).get(who)!;
    return fitted(label.replace(who, short), room, LETTER * 0.8);
  };
  const letters = lettersIn(labelX - 12, LETTER) - "group ".length, written = toldApart(rows.map(({ name }) => name), letters);
  rows.forEach(({ name, kind, spans }, row) => {
    const y = top + row * ROW, prefix = kind === "own" ? "  " : `${kind} `;
    root.append(nameText({ class: "small row-name", x: 8, y: y + 12 }, `${prefix}${written.get(name)}`, labelX - 12, LETTER));
    // Of the spans that fall on one pixel, the first is drawn: a run has tens of thousands of transactions.
    let drawn = NOTHING;
    for (const span of spans) {
      if (span.to < from || span.from > to) continue;
      const x = xAt(span.from), until = xAt(Math.min(span.to, to)), right = Math.round(until);
      if (right <= drawn && until - x < 1) continue;
      drawn = right;
      const tall = span.isThin ? 3 : 11, title = `${name}: ${span.title}, ${seconds(span.from)} to ${seconds(span.to)} s`;
      root.append(s("rect", { class: `span ${span.kind}`, x, y: y + 7 - tall / 2, width: Math.max(1, until - x), height: tall }, s("title", {}, title)));
      if (span.mark && span.from >= from) root.append(s("text", { class: `span-mark ${span.kind}`, x: x + 1, y: y + (span.isThin ? 5 : 11) }, span.mark));
      const room = until - x - (span.mark ? 14 : 6);
      if (span.label && room > 3 * LETTER) root.append(s("text", { class: `span-text ${span.kind}`, x: x + (span.mark ? 14 : 4), y: y + 11 }, labelOf(span, room)));
    }
  });
}

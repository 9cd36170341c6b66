// Transactions and groups over the whole run, computed once, and how each state of theirs looks wherever it is drawn.
import { type Place, type Tape, NOTHING } from "./contract";
import { DOWN, NO_MEMBERS, PAUSED, REBALANCING, RUNNING } from "./fold";
import { type Step, valueAt } from "./series";

/** word: Kafka's     kind: its class     isThin: drawn as a line */
export interface StateLook { word: string; kind: string; sign: string; isThin?: boolean }

/** In the order of STATES in coordinators.py. */
export const STATE_LOOKS: readonly StateLook[] = [
  { word: "Empty", kind: "empty", sign: "\u00b7", isThin: true }, { word: "Ongoing", kind: "ongoing", sign: "\u2026" },
  { word: "PrepareCommit", kind: "prepare commit", sign: "\u2713" }, { word: "PrepareAbort", kind: "prepare abort", sign: "\u2298" },
  { word: "CompleteCommit", kind: "complete commit", sign: "\u2713", isThin: true }, { word: "CompleteAbort", kind: "complete abort", sign: "\u2298", isThin: true },
  { word: "PrepareEpochFence", kind: "prepare abort", sign: "\u2298" }, { word: "Dead", kind: "empty", sign: "\u2715", isThin: true },
];
export const stateLook = (state: number): StateLook | undefined => STATE_LOOKS[state];

/** fences: the coordinator has ended the transaction by itself */
export interface StateSpan { from: number; state: number; node: Place; producer: number; epoch: number; fences: boolean }

/** owners: by partition of `assigned`, the member from a time on; NOTHING: none is to read it, GONE: the group is empty */
export interface GroupSeries { phases: { from: number; phase: number; generation: number }[]; owners: Map<Place, Step[]> }
export const GONE = -2;

/** nodes: the states of processes, by their names, which are those of clients */
export interface CoordinatorSeries { transactions: StateSpan[][]; groups: GroupSeries[]; nodes: Map<string, Step[]> }

/** Whose a partition is from a time on, and the state of that one's process. */
export interface Reading { from: number; owner: Place; state: number }

export const hasTransactions = (tape: Tape): boolean => tape.txns !== undefined;
export const hasCoordinators = (tape: Tape): boolean => tape.txns !== undefined || tape.groups !== undefined;

export function coordinatorSeries(tape: Tape): CoordinatorSeries {
  const transactions = (tape.txns ?? []).map((): StateSpan[] => []);
  const groups = (tape.groups ?? []).map((): GroupSeries => ({ phases: [], owners: new Map() }));
  const nodes = new Map<string, Step[]>();
  if (!hasCoordinators(tape)) return { transactions, groups, nodes };
  tape.changes.forEach((changes, place) => {
    const from = tape.at[place]!;
    for (const change of changes) {
      if (change[0] === "txn") {
        const [, id, node, state, producer, epoch, fences] = change;
        transactions[id]!.push({ from, state, node, producer, epoch, fences: fences === 1 });
      } else if (change[0] === "node") {
        const name = tape.nodes[change[1]]![0];
        nodes.set(name, [...(nodes.get(name) ?? []), [from, change[2]]]);
      } else if (change[0] === "group") groups[change[1]]!.phases.push({ from, phase: change[3], generation: change[4] });
      else if (change[0] === "own") {
        const [, group, partition, member, isTheirs] = change, owners = groups[group]!.owners;
        owners.set(partition, [...(owners.get(partition) ?? []), [from, isTheirs ? member : GONE]]);
      }
    }
  });
  return { transactions, groups, nodes };
}

/** A client from outside is taken to run: nothing of its process is on the tape. */
export function readings(tape: Tape, { nodes }: CoordinatorSeries, steps: readonly Step[]): Reading[] {
  return steps.flatMap(([from, owner], place): Reading[] => {
    const states = nodes.get(tape.members?.[owner]?.[1] ?? "") ?? [], to = steps[place + 1]?.[0] ?? Infinity;
    if (owner < 0 || !states.length) return [{ from, owner, state: RUNNING }];
    return [{ from, owner, state: valueAt(states, from) }, ...states.filter(([at]) => at > from && at < to).map(([at, state]) => ({ from: at, owner, state }))];
  });
}

/** In words, of a process that reads nothing. */
export const idleWord = (state: number): string => (state === DOWN ? "down" : state === PAUSED ? "frozen" : "");

/** For how long no process that ran was to read a partition, until `now`, microseconds. */
export function unreadUntil(stretches: readonly Reading[], now: number): number {
  let found = 0;
  stretches.forEach(({ from, owner, state }, place) => {
    if ((owner === NOTHING || (owner >= 0 && idleWord(state))) && from < now) found += Math.min(stretches[place + 1]?.from ?? now, now) - from;
  });
  return found;
}

export const phaseWord = (phase: number): string => (phase === REBALANCING ? "rebalancing" : phase === NO_MEMBERS ? "no members" : "stable");

/** Of two partitions that members have had: by topic, then by number. */
export function inOrder(tape: Tape, one: Place, other: Place): number {
  const [topic, number] = parts(tape, one), [otherTopic, otherNumber] = parts(tape, other);
  return topic === otherTopic ? number - otherNumber : topic < otherTopic ? -1 : 1;
}

function parts(tape: Tape, place: Place): [string, number] {
  const name = tape.assigned![place]!, dash = name.lastIndexOf("-");
  return [name.slice(0, dash), Number(name.slice(dash + 1))];
}

/** A client.id where no other member of the tape has the same, else the member id. */
export function memberName(tape: Tape, member: Place): string {
  const [id, client] = tape.members?.[member] ?? ["", ""];
  const isAlone = (tape.members ?? []).filter(([, other]) => other === client).length === 1;
  return isAlone && client ? client : id;
}

// How a broker can stand to a partition, and how each standing looks wherever it is drawn.
import type { Place } from "./contract";
import { DOWN, NOT_STARTED, type Partition, PAUSED, type Replica, hasNoRole } from "./fold";

export const GONE = 0, OUT = 1, IN = 2, LEADING = 3, FROZEN_OUT = 4, FROZEN_IN = 5, DOWN_IN = 6, UNBORN = 7, NO_REPLICA = 8;
/** Standings to draw nothing for: a broker that has not started, a broker without a replica. */
export const isSeen = (standing: number): boolean => standing < UNBORN;

/** label: inside a ribbon with room for it     isThin: the ribbon is a line */
export interface Look { standing: number; word: string; sign: string; kind: string; label?: string; isThin?: boolean }

/** Of every standing that is seen, in the order of the legend. */
export const LOOKS: readonly Look[] = [
  { standing: LEADING, word: "leader", sign: "\u265b", kind: "leading", label: "\u265b leader" },
  { standing: IN, word: "in the ISR", sign: "\u25a0", kind: "in" },
  { standing: OUT, word: "out of the ISR", sign: "\u25a1", kind: "out", isThin: true },
  { standing: DOWN_IN, word: "down, still in the ISR", sign: "\u25bc!", kind: "down-in", label: "\u25bc down, in ISR" },
  { standing: GONE, word: "down, out of the ISR", sign: "\u25bc", kind: "gone", label: "\u25bc down" },
  { standing: FROZEN_IN, word: "frozen, still in the ISR", sign: "\u2016\u25a0", kind: "frozen-in", label: "frozen, in ISR" },
  { standing: FROZEN_OUT, word: "frozen, out of the ISR", sign: "\u2016", kind: "frozen", label: "frozen" },
];
const LOOK_OF = new Map(LOOKS.map((look) => [look.standing, look]));
export const lookOf = (standing: number): Look => LOOK_OF.get(standing)!;

/** The states of the nodes, and who leads, is in the ISR and has a replica, of each partition. */
export interface Standings {
  readonly nodes: readonly number[];
  readonly partitions: readonly (Pick<Partition, "leader" | "isr" | "assigned"> & { readonly replicas: ReadonlyMap<Place, Pick<Replica, "role" | "epoch">> })[];
}

export function standingOf(cluster: Standings, partition: Place, node: Place): number {
  const now = cluster.partitions[partition]!, inside = now.isr.includes(node);
  if (!now.assigned.includes(node)) return NO_REPLICA;
  if (cluster.nodes[node] === NOT_STARTED) return UNBORN;
  if (cluster.nodes[node] === DOWN) return inside ? DOWN_IN : GONE;
  if (cluster.nodes[node] === PAUSED) return inside ? FROZEN_IN : FROZEN_OUT;
  if (now.leader === node && !hasNoRole(now.replicas.get(node))) return LEADING;
  return inside ? IN : OUT;
}

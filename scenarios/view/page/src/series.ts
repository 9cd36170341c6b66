// One partition over the whole run, computed once: who led, who was in the ISR, how far logs and high watermarks were.
import { type Place, type Tape, NOTHING, lastUpTo } from "./contract";
import { Cluster, DOWN, PAUSED, replicasOf } from "./fold";

/** A value from a time on. */
export type Step = [from: number, value: number];
export const GONE = 0, OUT = 1, IN = 2, LEADING = 3, FROZEN_OUT = 4, FROZEN_IN = 5, DOWN_IN = 6;

export interface Series {
  replicas: Place[];
  standing: Map<Place, Step[]>;
  leo: Map<Place, Step[]>;
  hw: Step[];
  leader: Step[];
}

function put(steps: Step[], at: number, value: number): void {
  const last = steps.at(-1);
  if (last && last[1] === value) return;
  if (last && last[0] === at) last[1] = value; else steps.push([at, value]);
}

export function standingOf(cluster: Cluster, partition: Place, node: Place): number {
  const now = cluster.partitions[partition]!, inside = now.isr.includes(node);
  if (!now.assigned.includes(node)) return GONE;
  if (cluster.nodes[node] === DOWN) return inside ? DOWN_IN : GONE;
  if (cluster.nodes[node] === PAUSED) return inside ? FROZEN_IN : FROZEN_OUT;
  if (now.leader === node) return LEADING;
  return inside ? IN : OUT;
}

export function seriesOf(tape: Tape, partition: Place): Series {
  const cluster = new Cluster(tape), replicas = replicasOf(tape, partition);
  const series: Series = { replicas, standing: new Map(), leo: new Map(), hw: [], leader: [] };
  for (const node of replicas) {
    series.standing.set(node, []);
    series.leo.set(node, []);
  }
  tape.changes.forEach((changes, place) => {
    cluster.seek(place);
    if (!changes.some((change) => change[0] === "node" || change[1] === partition)) return;
    const now = cluster.partitions[partition]!, at = tape.at[place]!;
    if (!now.exists) return;
    put(series.leader, at, now.leader);
    for (const node of replicas) {
      put(series.standing.get(node)!, at, standingOf(cluster, partition, node));
      const replica = now.replicas.get(node);
      if (replica) {
        put(series.leo.get(node)!, at, replica.leo);
        if (node === now.leader && cluster.nodes[node] !== DOWN) put(series.hw, at, replica.hw);
      }
    }
  });
  return series;
}

export const valueAt = (steps: readonly Step[], at: number): number =>
  steps[lastUpTo(steps.length, at, (place) => steps[place]![0])]?.[1] ?? NOTHING;

// One partition over the whole run, computed once: who led, who was in the ISR, how far logs and high watermarks were.
import { type Place, type Tape, NOTHING, lastUpTo } from "./contract";
import { Cluster, NOT_STARTED, isUp, replicasOf } from "./fold";
import { NO_REPLICA, standingOf } from "./standings";

/** A value from a time on. */
export type Step = [from: number, value: number];

export interface Series {
  replicas: Place[];
  standing: Map<Place, Step[]>;
  leo: Map<Place, Step[]>;
  hw: Step[];
  leader: Step[];
  /** the last stable offset; empty where it is the high watermark for the whole run */
  stable: Step[];
}

function put(steps: Step[], at: number, value: number): void {
  const last = steps.at(-1);
  if (last && last[1] === value) return;
  if (last && last[0] === at) last[1] = value; else steps.push([at, value]);
}

/** The partition is deleted, and all that it had. */
function end(series: Series, at: number): void {
  put(series.leader, at, NOTHING);
  for (const steps of series.standing.values()) put(steps, at, NO_REPLICA);
  for (const steps of [...series.leo.values(), series.hw, series.stable]) if (steps.length) put(steps, at, 0);
}

export function seriesOf(tape: Tape, partition: Place): Series {
  const cluster = new Cluster(tape), replicas = replicasOf(tape, partition);
  const series: Series = { replicas, standing: new Map(), leo: new Map(), hw: [], leader: [], stable: [] };
  for (const node of replicas) {
    series.standing.set(node, []);
    series.leo.set(node, []);
  }
  const isHeldOnce = tape.changes.some((changes) => changes.some((change) => change[0] === "stable" && change[1] === partition && change[2] !== NOTHING));
  tape.changes.forEach((changes, place) => {
    cluster.seek(place);
    if (!changes.some((change) => change[0] === "node" || change[1] === partition)) return;
    const now = cluster.partitions[partition]!, at = tape.at[place]!;
    if (!now.exists) {
      if (series.leader.length) end(series, at);
      return;
    }
    put(series.leader, at, now.leader);
    for (const node of replicas) {
      put(series.standing.get(node)!, at, standingOf(cluster, partition, node));
      const replica = now.replicas.get(node);
      if (replica) {
        put(series.leo.get(node)!, at, replica.leo);
        if (node === now.leader && isUp(cluster.nodes[node])) put(series.hw, at, replica.hw);
      }
    }
    if (isHeldOnce && series.hw.length) put(series.stable, at, now.stable === NOTHING ? series.hw.at(-1)![1] : Math.min(now.stable, series.hw.at(-1)![1]));
  });
  return series;
}

/** By partition, by broker. */
export type StandingsBy = Map<Place, Map<Place, Step[]>>;

/** How every broker stood to every partition over the run, in one pass that leaves out logs and records. */
export function standingsOf(tape: Tape): StandingsBy {
  const none = () => ({ leader: NOTHING, isr: [] as Place[], assigned: [] as Place[], replicas: new Map<Place, { role: number; epoch: number }>() });
  const nodes = tape.nodes.map(() => NOT_STARTED), partitions = tape.partitions.map(none);
  const found: StandingsBy = new Map(tape.partitions.map((_, partition) => [partition, new Map()]));
  const note = (partition: Place, at: number): void => {
    const by = found.get(partition)!;
    for (const node of partitions[partition]!.assigned) if (!by.has(node)) by.set(node, []);
    for (const [node, steps] of by) put(steps, at, standingOf({ nodes, partitions }, partition, node));
  };
  tape.changes.forEach((changes, place) => {
    const at = tape.at[place]!, touched = new Set<Place>();
    for (const change of changes) {
      if (change[0] === "node") {
        nodes[change[1]] = change[2];
        for (const [partition, by] of found) if (by.has(change[1])) touched.add(partition);
      } else if (change[0] === "part") {
        Object.assign(partitions[change[1]]!, { leader: change[2], isr: change[4], assigned: change[7] });
        touched.add(change[1]);
      } else if (change[0] === "replica") {
        const [, partition, node, role, epoch] = change, { replicas } = partitions[partition]!;
        if (replicas.get(node)?.role !== role) touched.add(partition);
        replicas.set(node, { role, epoch });
      } else if (change[0] === "gone") {
        partitions[change[1]] = none();
        touched.add(change[1]);
      }
    }
    for (const partition of touched) note(partition, at);
  });
  return found;
}

export const valueAt = (steps: readonly Step[], at: number): number =>
  steps[lastUpTo(steps.length, at, (place) => steps[place]![0])]?.[1] ?? NOTHING;

// The state of the cluster after each event: changes are applied going forward and taken back going backward.
import { type Change, type Place, type Tape, NOTHING, brokersOf } from "./contract";

/** A node without a state has not started. */
export const DOWN = 0, RUNNING = 1, PAUSED = 2, NOT_STARTED = 3;
export const isUp = (state: number | undefined): boolean => state === RUNNING || state === PAUSED;
export const UNSENT = -1, SENT = 0, ACKED = 1, HANDED_OVER = 2, FAILED = 3, RETRIED = 4;
export const NO_ROLE = 0, LEADS = 2;
/** After a start, a broker leads and follows nothing until the metadata says so, whatever the controller still calls it. Who has never had a role is not known to have none. */
export const hasNoRole = (replica: Pick<Replica, "role" | "epoch"> | undefined): boolean => replica?.role === NO_ROLE && replica.epoch !== NOTHING;
export const NO_MEMBERS = 0, REBALANCING = 1, STABLE = 2;

/** producer: its id, of a batch in a transaction */
export interface Cell { record: Place; epoch: number; producer?: number }

/** Of a batch that ends a transaction. */
export interface Marker { isCommit: boolean; producer: number }

/** cells: by offset, from the first that was ever here; those below start are deleted */
export interface Replica { role: number; epoch: number; start: number; leo: number; hw: number; cells: (Cell | undefined)[] }

export interface Partition {
  exists: boolean; leader: Place; epoch: number; isr: Place[]; elr: Place[]; minIsr: number; assigned: Place[];
  replicas: Map<Place, Replica>; sent: Place[];
  /** by `epoch/offset`, which name a batch on every replica */
  markers: Map<string, Marker>;
  /** the last stable offset while it is below the high watermark, else NOTHING */
  stable: number;
}

/** Of a transactional.id, as its coordinator has said last. state NOTHING: not yet */
export interface Transaction { state: number; node: Place; producer: number; epoch: number }

/** owners: by partition of the tape's `assigned`, the member that is to read it, NOTHING while none is */
export interface Group { phase: number; node: Place; generation: number; owners: Map<Place, Place> }

export interface Known { state: number; client: Place; partition: Place }

const newReplica = (): Replica => ({ role: NO_ROLE, epoch: NOTHING, start: 0, leo: 0, hw: 0, cells: [] });
const newPartition = (): Partition => ({
  exists: false, leader: NOTHING, epoch: NOTHING, isr: [], elr: [], minIsr: 1, assigned: [], replicas: new Map(), sent: [], markers: new Map(), stable: NOTHING,
});

/** The cluster after the event at `place`. `seek` moves it to any event. */
export class Cluster {
  place: Place = NOTHING;
  readonly nodes: number[] = [];
  readonly partitions: Partition[] = [];
  readonly records: Known[] = [];
  /** positions of consumers by `client/partition` */
  readonly positions = new Map<string, number>();
  readonly transactions: Transaction[] = [];
  readonly groups: Group[] = [];
  private readonly undo: (() => void)[][] = [];

  constructor(readonly tape: Tape) {
    this.grow();
  }

  /** Makes room for what the tape names by now. */
  grow(): void {
    while (this.nodes.length < this.tape.nodes.length) this.nodes.push(NOT_STARTED);
    while (this.partitions.length < this.tape.partitions.length) this.partitions.push(newPartition());
    while (this.transactions.length < (this.tape.txns?.length ?? 0)) this.transactions.push({ state: NOTHING, node: NOTHING, producer: NOTHING, epoch: NOTHING });
    while (this.groups.length < (this.tape.groups?.length ?? 0)) this.groups.push({ phase: NO_MEMBERS, node: NOTHING, generation: NOTHING, owners: new Map() });
    while (this.records.length < this.tape.records.length) this.records.push({ state: UNSENT, client: NOTHING, partition: NOTHING });
  }

  seek(place: Place): void {
    const goal = Math.max(NOTHING, Math.min(place, this.tape.at.length - 1));
    while (this.place < goal) {
      this.place += 1;
      this.undo[this.place] = (this.tape.changes[this.place] ?? []).map((change) => this.apply(change));
    }
    while (this.place > goal) {
      for (const back of this.undo[this.place]!.reverse()) back();
      this.place -= 1;
    }
  }

  private replica(partition: Place, node: Place): Replica {
    const replicas = this.partitions[partition]!.replicas;
    let found = replicas.get(node);
    if (!found) replicas.set(node, (found = newReplica()));
    return found;
  }

  /** Returns what takes it back. */
  private apply(change: Change): () => void {
    switch (change[0]) {
      case "node": {
        const [, node, state] = change, before = this.nodes[node]!;
        this.nodes[node] = state;
        return () => void (this.nodes[node] = before);
      }
      case "part": {
        const [, place, leader, epoch, isr, elr, minIsr, assigned] = change;
        return this.assign(this.partitions[place]!, { exists: true, leader, epoch, isr, elr, minIsr, assigned });
      }
      case "replica": {
        const [, place, node, role, epoch, start, leo, hw] = change;
        const replica = this.replica(place, node);
        const cut = replica.cells.slice(leo), back = this.assign(replica, { role, epoch, start, leo, hw });
        if (cut.length) replica.cells.length = leo;
        return () => {
          back();
          replica.cells.push(...cut);
        };
      }
      case "append": {
        const [, place, node, base, epoch, records, producer] = change, replica = this.replica(place, node);
        const before = replica.cells.length;
        while (replica.cells.length < base) replica.cells.push(undefined);
        const covered = replica.cells.splice(base, records.length, ...records.map((record) => (producer === undefined ? { record, epoch } : { record, epoch, producer })));
        return () => {
          replica.cells.splice(base, records.length, ...covered);
          replica.cells.length = before;
        };
      }
      case "record": {
        const [, record, state, client, place] = change, known = this.records[record]!, sent = this.partitions[place]?.sent;
        // A producer without metadata does not know yet to which partition its record goes.
        const isPlaced = sent !== undefined && known.partition < 0, back = this.assign(known, { state, client, partition: sent ? place : known.partition });
        if (isPlaced) sent.push(record);
        return () => {
          back();
          if (isPlaced) sent.pop();
        };
      }
      case "read": {
        const [, client, place, position] = change;
        return this.set(this.positions, `${client}/${place}`, position);
      }
      case "gone": {
        const place = change[1], before = this.partitions[place]!;
        this.partitions[place] = newPartition();
        return () => void (this.partitions[place] = before);
      }
      case "txn": {
        const [, place, node, state, producer, epoch] = change;
        return this.assign(this.transactions[place]!, { node, state, producer, epoch });
      }
      case "marker": {
        const [, place, epoch, offset, isCommit, , producer] = change;
        return this.set(this.partitions[place]!.markers, `${epoch}/${offset}`, { isCommit: isCommit === 1, producer });
      }
      case "stable": return this.assign(this.partitions[change[1]]!, { stable: change[2] });
      case "group": {
        const [, place, node, phase, generation] = change;
        return this.assign(this.groups[place]!, { node, phase, generation });
      }
      case "own": {
        const [, place, partition, member, isTheirs] = change;
        return this.set(this.groups[place]!.owners, partition, isTheirs ? member : undefined);
      }
    }
  }

  private set<K, V>(target: Map<K, V>, key: K, value: V | undefined): () => void {
    const before = target.get(key), put = (one: V | undefined): void => void (one === undefined ? target.delete(key) : target.set(key, one));
    put(value);
    return () => put(before);
  }

  private assign<T extends object>(target: T, values: Partial<T>): () => void {
    const before: Partial<T> = {};
    for (const key of Object.keys(values) as (keyof T)[]) before[key] = target[key];
    Object.assign(target, values);
    return () => void Object.assign(target, before);
  }
}

/** Every replica that the partition ever had, in the order of the brokers. */
export function replicasOf(tape: Tape, partition: Place): Place[] {
  const found = new Set<Place>();
  for (const changes of tape.changes)
    for (const change of changes)
      if (change[0] === "part" && change[1] === partition) for (const node of change[7]) found.add(node);
  return brokersOf(tape).filter((node) => found.has(node));
}

/** How the transaction of a cell ended, as the log of this replica says. */
export const OPEN = 0, COMMITTED = 1, ABORTED = 2;
export type Ending = typeof OPEN | typeof COMMITTED | typeof ABORTED;

export const markerOf = (partition: Partition, replica: Replica, offset: number): Marker | undefined =>
  partition.markers.size ? partition.markers.get(`${replica.cells[offset]?.epoch}/${offset}`) : undefined;

/** By offset, from `first` on, of the cells that are in transactions. */
export function endingsOf(partition: Partition, replica: Replica, first: number): Map<number, Ending> {
  const found = new Map<number, Ending>(), ended = new Map<number, Ending>();
  for (let offset = replica.leo - 1; offset >= first; offset -= 1) {
    const producer = replica.cells[offset]?.producer, marker = markerOf(partition, replica, offset);
    if (marker) ended.set(marker.producer, marker.isCommit ? COMMITTED : ABORTED);
    else if (producer !== undefined) found.set(offset, ended.get(producer) ?? OPEN);
  }
  return found;
}

// What is to be drawn of each run at one moment: its cluster, moved there, and the series of its partitions, computed once.
import { type Place, type Run, placeAt, NOTHING } from "./contract";
import { type CoordinatorSeries, coordinatorSeries } from "./coordinators";
import { Cluster } from "./fold";
import { type Series, type StandingsBy, seriesOf, standingsOf } from "./series";
import type { Scene } from "./stage";

/** run: the one that is shown     limits: by run, the last event that the page may show now */
export interface Moment { run: number; partition: Place; place: Place; now: number; picked: Place; hides: boolean; limits: Place[] }

export class Scenes {
  private readonly clusters: Cluster[];
  private readonly seriesBy = new Map<string, Series>();
  private readonly standingsBy = new Map<number, StandingsBy>();
  private readonly coordinatorsBy = new Map<number, CoordinatorSeries>();

  constructor(private readonly runs: readonly Run[]) {
    this.clusters = runs.map((run) => new Cluster(run.tape));
  }

  /** After the tape of the first run has grown. */
  grow(begins: boolean): void {
    if (begins) this.clusters[0] = new Cluster(this.runs[0]!.tape);
    this.clusters[0]!.grow();
    this.seriesBy.clear();
    this.standingsBy.clear();
    this.coordinatorsBy.clear();
  }

  /** After a run was added. */
  add(): void { this.clusters.push(new Cluster(this.runs.at(-1)!.tape)); }

  /** The other runs stand at the time of the one that is shown, and show the partition of the same name. */
  scene(number: number, moment: Moment): Scene {
    const run = this.runs[number]!, cluster = this.clusters[number]!, isShown = number === moment.run;
    const name = this.runs[moment.run]!.tape.partitions[moment.partition] ?? "";
    const partition = isShown ? moment.partition : Math.max(0, run.tape.partitions.indexOf(name));
    cluster.seek(Math.min(isShown ? moment.place : placeAt(run.tape, moment.now), moment.limits[number]!));
    const decisive = run.stories[0]?.moments.filter(([, , , isDecisive]) => isDecisive).at(-1)?.[0] ?? run.opens_at;
    return {
      run, cluster, partition, replicas: this.series(number, partition).replicas, now: moment.now, hides: moment.hides, knownFrom: decisive,
      picked: isShown ? moment.picked : NOTHING, compact: false,
    };
  }

  series(number: number, partition: Place): Series {
    const key = `${number}/${partition}`, found = this.seriesBy.get(key) ?? seriesOf(this.runs[number]!.tape, partition);
    this.seriesBy.set(key, found);
    return found;
  }

  standings(number: number): StandingsBy {
    const found = this.standingsBy.get(number) ?? standingsOf(this.runs[number]!.tape);
    this.standingsBy.set(number, found);
    return found;
  }

  coordinators(number: number): CoordinatorSeries {
    const found = this.coordinatorsBy.get(number) ?? coordinatorSeries(this.runs[number]!.tape);
    this.coordinatorsBy.set(number, found);
    return found;
  }
}

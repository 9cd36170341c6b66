// Beside the stage: what the coordinators of transactions and groups say at this moment.
import { type Run, NOTHING, nameOf, seconds } from "./contract";
import { type CoordinatorSeries, idleWord, inOrder, memberName, phaseWord, readings, stateLook, unreadUntil } from "./coordinators";
import { h } from "./dom";
import { type Cluster, NO_MEMBERS } from "./fold";
import { valueAt } from "./series";

const ROWS_MAX = 60;

export function coordinatorPane(run: Run, cluster: Cluster, series: CoordinatorSeries, now: number): HTMLElement {
  const pane = h("div", { class: "pane coordinators" });
  if (run.tape.txns) pane.append(...transactions(run, cluster, series, now));
  if (run.tape.groups) pane.append(...groups(run, cluster, series, now));
  return pane;
}

const head = (...names: string[]): HTMLElement => h("thead", {}, h("tr", {}, ...names.map((name) => (name ? h("th", { scope: "col" }, name) : h("td", {})))));

function* transactions({ tape }: Run, cluster: Cluster, series: CoordinatorSeries, now: number): Generator<HTMLElement> {
  const rows = cluster.transactions.flatMap(({ state, node, producer, epoch }, id) => {
    const look = stateLook(state);
    if (!look) return [];
    const since = series.transactions[id]!.filter(({ from }) => from <= now).at(-1)?.from ?? 0;
    return [h("tr", {}, h("th", { scope: "row", class: "mono" }, tape.txns![id]!), h("td", { class: `state ${look.kind}` }, `${look.sign} ${look.word}`),
      h("td", {}, `since ${seconds(since)} s; producer id ${producer}, epoch ${epoch}; coordinator ${nameOf(tape, node)}`))];
  });
  yield h("h2", {}, "Transactions");
  if (!rows.length) yield h("p", { class: "muted" }, "No coordinator has heard of a transactional.id yet.");
  else yield h("table", {}, head("id", "state", ""), h("tbody", {}, ...rows.slice(0, ROWS_MAX)));
  if (rows.length > ROWS_MAX) yield h("p", { class: "small muted" }, `and ${rows.length - ROWS_MAX} more`);
  const held = cluster.partitions.flatMap((part, partition) => {
    const leader = part.replicas.get(part.leader);
    return part.stable === NOTHING || !leader ? [] : [`${tape.partitions[partition]}: the last stable offset stands at ${part.stable}, ${leader.hw - part.stable} below the high watermark; who reads what is committed waits there`];
  });
  if (held.length) yield h("ul", {}, ...held.slice(0, ROWS_MAX).map((text) => h("li", {}, text)));
}

function* groups({ tape }: Run, cluster: Cluster, series: CoordinatorSeries, now: number): Generator<HTMLElement> {
  for (const [place, group] of cluster.groups.slice(0, ROWS_MAX).entries()) {
    yield h("h2", {}, `Group ${tape.groups![place]!}`);
    if (group.node === NOTHING) { yield h("p", { class: "muted" }, "No coordinator has heard of it yet."); continue; }
    yield h("p", {}, `${phaseWord(group.phase)}, generation ${group.generation}, coordinator ${nameOf(tape, group.node)}`);
    if (group.phase === NO_MEMBERS || !group.owners.size) continue;
    const rows = [...group.owners].sort(([one], [other]) => inOrder(tape, one, other)).slice(0, ROWS_MAX).map(([which, owner]) => {
      const steps = series.groups[place]!.owners.get(which) ?? [], stretches = readings(tape, series, steps), isRead = valueAt(steps, now) !== NOTHING && owner !== NOTHING;
      const reading = stretches.filter(({ from }) => from <= now).at(-1), idle = isRead && reading ? idleWord(reading.state) : "", who = isRead ? [memberName(tape, owner), idle].filter(Boolean).join(", ") : "no member";
      return h("tr", {}, h("th", { scope: "row", class: "mono" }, tape.assigned![which]!), h("td", { class: isRead && !idle ? "" : "bad" }, who), h("td", { class: "mono" }, seconds(reading?.from ?? 0)), h("td", { class: "mono" }, seconds(unreadUntil(stretches, now))));
    });
    yield h("table", {}, head("partition", "read by", "since s", "unread, s"), h("tbody", {}, ...rows));
  }
}

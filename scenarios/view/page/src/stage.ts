// The stage: clients, brokers and the controller as rows; heads at the left, messages in flight, logs on one offset axis.
import { type Place, type Run, NOTHING, brokersOf, kindOf, nameOf } from "./contract";
import { fitted, h, s } from "./dom";
import { ABORTED, ACKED, type Cluster, DOWN, FAILED, HANDED_OVER, LEADS, NOT_STARTED, PAUSED, RETRIED, SENT, endingsOf, hasNoRole, isUp, markerOf } from "./fold";
import { brokerClass } from "./marks";
import { lettersIn, nameText, toldApart } from "./names";
import { drawEnding, drawStable, endingClass, markerWords, transactionsLegend } from "./stage_marks";

export interface Scene {
  run: Run; cluster: Cluster; partition: Place; replicas: Place[]; now: number;
  /** the reader is to predict: nothing may give the end away */
  hides: boolean;
  /** first event after which a lost record may be called lost */
  knownFrom: Place;
  picked: Place;
  compact: boolean;
}

interface Lane { node: Place; y: number; height: number; role: "producer" | "broker" | "controller" | "consumer" }

const GAP = 3, HEAD = 208, COMPACT_HEAD = 108, LANE = 86, SIDE_LANE = 66, RULER = 16, LETTER = 7.6, LANE_LETTER = 9, BADGE = 46, RACK_LETTER = 6.6, OTHER_HEIGHT = 24;

const cellOf = (scene: Scene, width: number): number => (scene.compact || width < 620 ? 30 : 40);

function lanesOf(scene: Scene, width: number): Lane[] {
  const { run, cluster, partition, replicas } = scene, lanes: Lane[] = [];
  const nodes = run.tape.nodes.map(([, role], node) => ({ node, role }));
  const sends = new Set((cluster.partitions[partition]?.sent ?? []).map((record) => cluster.records[record]!.client));
  const producers = nodes.filter(({ role, node }) => role === "producer" || sends.has(node));
  const busy = producers.filter(({ node }) => sends.has(node));
  let y = scene.compact ? 8 : 26;
  const add = (node: Place, role: Lane["role"], height: number): void => {
    lanes.push({ node, role, y, height });
    y += height;
  };
  for (const { node } of (busy.length ? busy : producers).slice(0, 2)) add(node, "producer", SIDE_LANE);
  y += 8;
  for (const node of replicas) add(node, "broker", scene.compact || width < 760 ? LANE + 12 : LANE);
  y += RULER;
  if (!scene.compact) {
    const controllers = nodes.filter(({ role }) => role === "controller");
    if (controllers[0]) add((controllers.find(({ node }) => isUp(cluster.nodes[node])) ?? controllers[0]).node, "controller", 50);
  }
  const readers = nodes.filter(({ role, node }) => role === "consumer" || cluster.positions.has(`${node}/${partition}`));
  add(readers[0]?.node ?? NOTHING, "consumer", SIDE_LANE);
  return lanes;
}

/** ends: of the logs */
interface Window { ends: number[]; first: number; room: number; head: number; wire: number; left: number }

/** Which offsets a stage shows: the end of the longest log, or, where that would hide it, the end of the leader's. */
function windowOf(scene: Scene, width: number): Window {
  const part = scene.cluster.partitions[scene.partition], cell = cellOf(scene, width);
  const head = scene.compact ? COMPACT_HEAD : width < 760 ? 118 : HEAD, wire = scene.compact || width < 620 ? 0 : Math.round(Math.min(300, width * 0.24));
  const room = Math.max(4, Math.floor((width - head - wire - 34) / (cell + GAP)));
  const ends = scene.replicas.map((node) => part?.replicas.get(node)?.leo ?? 0), top = Math.max(0, ...ends);
  const leaderEnd = part && part.leader >= 0 ? part.replicas.get(part.leader)?.leo ?? top : top;
  const first = Math.max(0, Math.min(top - room + (top >= room ? 1 : 0), Math.max(leaderEnd - 3, top - 4 * room)));
  return { ends, first, room, head, wire, left: head + wire + 26 };
}

/** The first offset of stages side by side, unless it would hide the end of a log that one of them shows. */
export function firstInCommon(scenes: Scene[], width: number): number | undefined {
  const windows = scenes.map((scene) => windowOf(scene, width)), last = Math.max(...windows.map(({ first }) => first));
  return windows.every(({ ends, first }) => ends.every((end) => end <= first || end > last)) ? last : undefined;
}

/** Draws the cluster as it is now. width: of the place it stands in     from: the first offset, where it is not this stage's own */
export function drawStage(scene: Scene, width: number, from?: number): SVGSVGElement {
  const { run, cluster, partition } = scene;
  if (!cluster.partitions[partition] || !scene.replicas.length) return s("svg", { class: "stage", width, height: 80, role: "img", "aria-label": describe(scene) }, s("text", { x: 14, y: 44 }, "The partition does not exist yet"));
  const lanes = lanesOf(scene, width);
  const { room, head, wire, left, first: own } = windowOf(scene, width), first = from ?? own, CELL = cellOf(scene, width);
  const last = lanes.at(-1)!, others = drawOthers(scene, last.y + last.height + 8, width), height = last.y + last.height + 6 + others.height;
  const root = s("svg", { class: "stage", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": describe(scene) });
  const lowest = lanes.findLast((lane) => lane.role === "broker")!, offsetsY = lowest.y + lowest.height + RULER - 5;
  const name = run.tape.partitions[partition]!;
  root.append(s("text", { class: "small muted", x: wire ? 12 : left - 10, y: offsetsY, "text-anchor": wire ? "start" : "end", "data-target": name }, wire ? fitted(`offset in ${name}`, head - 16, 6.6) : "offset"));
  for (let place = 0; place < room; place += 1)
    root.append(s("text", { class: "small mono muted offset", x: left + place * (CELL + GAP) + CELL / 2, y: offsetsY, "text-anchor": "middle" }, String(first + place)));
  const names = namesOn(scene, lanes, first, room, head, CELL);
  for (const lane of lanes) {
    const group = s("g", { class: `lane ${lane.role}`, "data-node": nameOf(run.tape, lane.node) });
    if (lane.role === "broker") drawBroker(group, scene, lane, { left, head, first, room, width, cell: CELL, names });
    else if (lane.role === "producer") drawProducer(group, scene, lane, { left, room, head, cell: CELL, names });
    else if (lane.role === "consumer") drawConsumer(group, scene, lane, { left, first, room, head, cell: CELL, names });
    else drawController(group, scene, lane, head, left, names);
    root.append(group);
  }
  root.append(...others.marks);
  if (wire) root.append(drawWire(scene, lanes, head + 4, wire));
  return root;
}

/** names: of the records, brokers and clients that are drawn, how each is written */
interface Room { left: number; head: number; first: number; room: number; width: number; cell: number; names: Map<string, string> }

const sentBy = (cluster: Cluster, partition: Place, node: Place): Place[] => (cluster.partitions[partition]?.sent ?? []).filter((record) => cluster.records[record]!.client === node);

function namesOn({ run, cluster, partition }: Scene, lanes: Lane[], first: number, room: number, head: number, cell: number): Map<string, string> {
  const { tape } = run, { replicas } = cluster.partitions[partition]!, places = lanes.flatMap(({ node, role }) => (role === "producer" ? sentBy(cluster, partition, node).slice(-room) : []));
  for (const replica of replicas.values()) for (const one of replica.cells.slice(first, first + room)) if (one) places.push(one.record);
  const records = places.filter((record) => record >= 0).map((record) => tape.records[record]!);
  const named = (isBroker: boolean): string[] => lanes.filter(({ node, role }) => node >= 0 && (role === "broker") === isBroker).map(({ node }) => nameOf(tape, node));
  const racks = lanes.flatMap(({ node, role }) => (role === "broker" ? rackOf(run, node) || [] : []));
  return new Map([...toldApart(racks, lettersIn(head - 72, RACK_LETTER)), ...toldApart(named(false), lettersIn(head - 16, LANE_LETTER), tape.nodes.map(([name]) => name)), ...toldApart(named(true), lettersIn(BADGE - 2, 11)), ...toldApart(records, lettersIn(cell, LETTER))]);
}

/** Squeezes the words beside a badge into their room, once the page can measure them: each theme has a size of its own. */
export function fitWords(drawn: Element): void {
  for (const text of drawn.querySelectorAll<SVGTextElement>("[data-room]")) {
    if (text.getComputedTextLength() <= Number(text.dataset["room"])) continue;
    text.setAttribute("textLength", text.dataset["room"]!);
    text.setAttribute("lengthAdjust", "spacingAndGlyphs");
  }
}

function drawBroker(group: SVGGElement, scene: Scene, lane: Lane, { left, head, first, room, width, cell: CELL, names }: Room): void {
  const { run, cluster, partition } = scene, { node, y, height } = lane;
  const part = cluster.partitions[partition]!, replica = part.exists ? part.replicas.get(node) : undefined, state = cluster.nodes[node];
  const inside = part.isr.includes(node), isDown = state === DOWN, isUnborn = state === NOT_STARTED, isIdle = isUp(state) && part.assigned.includes(node) && hasNoRole(replica), leads = part.leader === node && !isIdle;
  const color = brokerClass(run, node), middle = y + height / 2;
  if (leads) group.append(s("rect", { class: "leads", x: 3, y: y + 3, width: width - 6, height: height - 6, rx: 10 }));
  if (isDown || state === PAUSED) group.append(s("rect", { class: "fault-area", x: 5, y: y + 5, width: head - 8, height: height - 10, rx: 8 }));
  group.append(
    s("rect", { class: `badge ${color}`, x: 12, y: middle - 26, width: BADGE, height: 36, rx: 8 }),
    nameText({ class: "badge-name", x: 35, y: middle - 2, "text-anchor": "middle" }, names.get(nameOf(run.tape, node))!, BADGE - 4, 11),
  );
  if (leads) group.append(s("text", { class: "crown", x: 35, y: middle - 27, "text-anchor": "middle", "aria-hidden": "true" }, "\u265B"));
  const status = isDown ? "DOWN" : state === PAUSED ? "FROZEN" : isUnborn ? "not started" : "", words: [string, string][] = [];
  const leadership = leads ? (scene.compact || status ? "leader" : `leader, epoch ${part.epoch}`) : isIdle ? "starting" : !isDown && replica?.role === LEADS ? (status ? "old leader" : "thinks it leads") : "";
  if (status || leadership) words.push([isUnborn || isIdle && !status ? "muted" : status || !leads ? "bad" : "lead", [status, leadership].filter(Boolean).join(", ")]);
  if (!part.assigned.includes(node)) words.push(["muted", "no replica"]);
  else if (inside) words.push([isDown ? "bad" : isUnborn ? "muted" : "good", isDown ? "still in the ISR" : isUnborn ? "in the ISR" : "\u2713 in the ISR"]);
  else words.push(...(!isUp(state) || status || leadership ? [] : [["muted", "follower"] as [string, string]]), ["muted", part.elr.includes(node) ? "in the ELR" : "out of the ISR"]);
  // Three lines beside the badge begin higher: the figures stand below them.
  const x = 68, rack = rackOf(run, node), top = middle - (rack && words.length > 1 ? 21 : 14), rackY = head < 160 ? middle - 4 : top + 16 * Math.min(words.length, 2);
  if (rack) group.append(nameText({ class: "small muted", x, y: rackY }, names.get(rack)!, head - x - 4, RACK_LETTER));
  if (scene.compact || head < 160) {
    words.slice(0, 2).forEach(([kind, text], place) => group.append(s("text", { class: `word ${kind}`, x: 8, y: middle + 25 + place * 15, "data-room": head - 14 }, text)));
  } else {
    words.slice(0, 2).forEach(([kind, text], place) => group.append(s("text", { class: `word ${kind}`, x, y: top + place * 16, "data-room": head - x - 6 }, text)));
    if (replica) {
      const behind = leads ? 0 : (part.replicas.get(part.leader)?.leo ?? replica.leo) - replica.leo;
      const line = s("text", { class: "figures", x: 14, y: middle + 30, "data-room": head - 18 }, "LEO ", s("tspan", { class: "mono" }, String(replica.leo)),
        "  HW ", s("tspan", { class: "mono water-text" }, String(replica.hw)));
      if (leads && part.stable !== NOTHING) line.append("  LSO ", s("tspan", { class: "mono stable-text" }, String(part.stable)));
      if (behind > 0) line.append(s("tspan", { class: "bad" }, `  ${behind} behind`));
      group.append(line);
    }
  }
  if (!replica) return;
  const cellY = middle - 22, at = (offset: number): number => left + (offset - first) * (CELL + GAP);
  const water = Math.min(replica.hw, replica.leo);
  if (water > first) group.append(s("rect", { class: "water", x: left - 6, y: cellY - 6, width: Math.min(at(water), at(first + room)) - left + 3, height: 46, rx: 4 }));
  if (replica.leo < first) group.append(endsBefore(left, cellY + 22, replica.leo));
  else for (let place = 0; place < room; place += 1)
    group.append(s("rect", { class: "slot", x: at(first + place), y: cellY, width: CELL, height: 34, rx: 5 }));
  if (replica.start > first) group.append(s("text", { class: "small muted", x: left, y: cellY - 9 }, `starts at ${replica.start}`));
  if (first > 0) group.append(s("text", { class: "muted", x: left - 8, y: cellY + 22, "text-anchor": "end" }, "\u2026"));
  const endings = endingsOf(part, replica, first);
  for (let offset = Math.max(first, replica.start); offset < Math.min(replica.leo, first + room); offset += 1) {
    const cell = replica.cells[offset], record = cell?.record ?? NOTHING, marker = markerOf(part, replica, offset), ending = endings.get(offset);
    const end = endOf(scene, record), [name, below] = marker ? markerWords(marker) : [names.get(run.tape.records[record] ?? "") ?? "\u00b7", `e${cell?.epoch ?? "?"}`];
    const kind = end === LOST ? "lost" : offset < replica.hw ? "committed" : "uncommitted";
    const picked = record >= 0 && record === scene.picked;
    const box = s("g", { class: `cell ${kind} epoch-${Math.max(0, cell?.epoch ?? 0) % 4}${isDown ? " faint" : ""}${picked ? " picked" : ""}${marker ? " marker" : ""}${endingClass(ending)}`, "data-record": record },
      s("rect", { x: at(offset), y: cellY, width: CELL, height: 34, rx: marker ? 15 : 5 }),
      nameText({ class: "name", x: at(offset) + CELL / 2, y: cellY + 16, "text-anchor": "middle" }, name, CELL - 3, LETTER),
      s("text", { class: "epoch", x: at(offset) + CELL / 2, y: cellY + 29, "text-anchor": "middle" }, below));
    drawEnding(box, ending, at(offset), cellY, CELL, 34);
    if (end) box.append(s("circle", { class: `end-mark ${end.kind}`, cx: at(offset) + CELL - 4, cy: cellY + 36, r: 7.5 }),
      s("text", { class: `end-sign ${end.kind}`, x: at(offset) + CELL - 4, y: cellY + 40, "text-anchor": "middle" }, end.sign));
    group.append(box);
  }
  const last = first + room, isSeen = (offset: number): boolean => offset >= first && offset <= last;
  const xOf = (offset: number): number => at(Math.max(first, Math.min(offset, last))) - GAP / 2;
  if (replica.leo > last) group.append(s("text", { class: "small muted", x: at(last) - 1, y: cellY + 22 }, "\u2026"));
  // Outside of the window, the number alone says where the log ends.
  flag(group, xOf(replica.leo), cellY, `LEO ${replica.leo}`, "leo", isSeen(replica.leo), left);
  const from = leads && isSeen(part.stable) && part.stable < replica.hw ? drawStable(group, part.stable, xOf(part.stable), cellY, left) : left - 6;
  if (replica.hw >= first) flag(group, xOf(replica.hw), cellY, `HW ${replica.hw}`, "hw", isSeen(replica.hw), left, from);
}

/** In the row of a log, or of what a consumer can read of it, that has nothing in the window. */
const endsBefore = (x: number, y: number, end: number): SVGElement => s("text", { class: "small muted ends-before", x, y }, `ends at ${end}`);

/** isSeen: its offset is in the window, so that a line marks it */
function flag(group: SVGGElement, x: number, cellY: number, text: string, kind: "leo" | "hw", isSeen: boolean, left: number, from = left - 6): void {
  const isHigh = kind === "leo", y1 = isHigh ? cellY - 10 : cellY - 4, y2 = isHigh ? cellY + 36 : cellY + 44;
  if (isSeen) group.append(s("line", { class: `flag ${kind}`, x1: x, x2: x, y1, y2 }));
  // At the beginning of the log there is room on the right only.
  const width = text.length * 9 + 8, start = Math.max(from, x - width + 1), isFirst = start > x - width + 1;
  if (!isHigh) group.append(s("rect", { class: "hw-flag", x: start, y: cellY + 40, width, height: 15 }));
  group.append(s("text", { class: `flag-text ${kind}`, x: isFirst ? start + 4 : x - 3, y: isHigh ? cellY - 9 : cellY + 52, "text-anchor": isFirst ? "start" : "end" }, text));
}

/** How a record stands, or what became of it: the class of its cell, its sign, and the words of the legend. */
interface Fate { kind: string; sign: string; word: string }

/** The cross is for a broken promise alone. */
const LOST: Fate = { kind: "lost", sign: "\u2715", word: "acked, then lost" };
const MISSING: Fate = { kind: "missing", sign: "\u25cb", word: "not acked, missing" };
const TOLD: Record<number, Fate> = {
  [SENT]: { kind: "waiting", sign: "\u2026", word: "no answer yet" }, [RETRIED]: { kind: "waiting", sign: "\u21bb", word: "sent again" },
  [ACKED]: { kind: "acked", sign: "\u2713", word: "acked" }, [HANDED_OVER]: { kind: "handed", sign: "\u2192", word: "no answer asked" },
  [FAILED]: { kind: "failed", sign: "!", word: "failed" },
};

/** What became of a record that is in no log at the end, as soon as the page may say so. */
function endOf(scene: Scene, record: Place): Fate | undefined {
  if (record < 0 || scene.hides || scene.cluster.place < scene.knownFrom) return undefined;
  const name = scene.run.tape.records[record]!, { lost, missing } = scene.run.head;
  return lost.includes(name) ? LOST : missing.includes(name) ? MISSING : undefined;
}

function drawProducer(group: SVGGElement, scene: Scene, lane: Lane, { left, room, head, cell: CELL, names }: Omit<Room, "width" | "first">): void {
  const { run, cluster, partition } = scene, { y, node } = lane;
  const acks = run.head.built.find((one) => one.startsWith(`${nameOf(run.tape, node)} acks=`))?.split(" ")[1] ?? "";
  const sent = sentBy(cluster, partition, node);
  const count = (state: number): number => sent.filter((record) => cluster.records[record]!.state === state).length;
  idle(group, scene, lane, head);
  group.append(
    nameText({ class: "lane-name", x: 12, y: y + 18 }, names.get(nameOf(run.tape, node)) ?? "", head - 16, LANE_LETTER),
    s("text", { class: "mono accent", x: 12, y: y + 36 }, acks),
    nameText({ class: "small", x: 12, y: y + 53 }, acks === "acks=0" ? `${sent.length} sent` : `${sent.length} sent, ${count(ACKED)} ${head < HEAD ? "\u2713" : "acked"}`, head - 16, 6.6),
  );
  if (!scene.compact) group.append(s("text", { class: "small muted", x: left, y: y + 10 }, "What the producer knows"));
  sent.slice(-room).forEach((record, place) => {
    const x = left + place * (CELL + GAP), told = TOLD[cluster.records[record]!.state] ?? TOLD[SENT]!;
    // An error for an answer says more than that the record did not arrive.
    const { kind, sign } = told === TOLD[FAILED] ? told : endOf(scene, record) ?? told;
    group.append(s("g", { class: `told ${kind}${record === scene.picked ? " picked" : ""}`, "data-record": record },
      s("rect", { x, y: y + 18, width: CELL, height: 38, rx: 5 }),
      nameText({ class: "name", x: x + CELL / 2, y: y + 33, "text-anchor": "middle" }, names.get(run.tape.records[record]!)!, CELL - 3, LETTER),
      s("text", { class: "sign", x: x + CELL / 2, y: y + 50, "text-anchor": "middle" }, sign)));
  });
}

const rackOf = (run: Run, node: Place): string => run.head.racks[nameOf(run.tape, node)] ? `rack ${run.head.racks[nameOf(run.tape, node)]}` : "";

/** The brokers that never hold a replica of the partition: small, so that they can be clicked. */
function drawOthers({ run, cluster, partition, replicas, compact }: Scene, top: number, width: number): { marks: SVGElement[]; height: number } {
  const others = compact ? [] : brokersOf(run.tape).filter((node) => !replicas.includes(node)), words = `Brokers without a replica of ${run.tape.partitions[partition]!}:`;
  if (!others.length) return { marks: [], height: 0 };
  const marks: SVGElement[] = [s("text", { class: "small muted", x: 12, y: top + 15 }, words)];
  let x = 20 + words.length * 6.2, y = top;
  for (const node of others) {
    const state = cluster.nodes[node], status = state === DOWN ? "DOWN" : state === PAUSED ? "FROZEN" : state === NOT_STARTED ? "not started" : "";
    const text = fitted([nameOf(run.tape, node), rackOf(run, node), status].filter(Boolean).join(", "), width - 40, 6.6), room = text.length * 6.6 + 16;
    if (x + room > width - 8) {
      x = 12;
      y += OTHER_HEIGHT;
    }
    marks.push(s("g", { class: "other", "data-node": nameOf(run.tape, node) }, s("rect", { class: brokerClass(run, node), x, y, width: room, height: 20, rx: 6 }),
      s("text", { class: `small${status && state !== NOT_STARTED ? " bad" : ""}`, x: x + room / 2, y: y + 14, "text-anchor": "middle" }, text)));
    x += room + 8;
  }
  return { marks, height: y - top + OTHER_HEIGHT + 4 };
}

/** A client that is down or frozen, as brokers are drawn. */
function idle(group: SVGGElement, scene: Scene, { node, y, height }: Lane, head: number): void {
  const state = node >= 0 ? scene.cluster.nodes[node] : undefined, status = state === DOWN ? "DOWN" : state === PAUSED ? "FROZEN" : "";
  if (status) group.append(s("rect", { class: "fault-area", x: 5, y: y + 2, width: head - 8, height: height - 6, rx: 8 }),
    s("text", { class: "word bad", x: head - 10, y: y + 18, "text-anchor": "end" }, status));
}

function drawConsumer(group: SVGGElement, scene: Scene, lane: Lane, { left, first, room, head, cell: CELL, names }: Omit<Room, "width">): void {
  const { run, cluster, partition } = scene, { y, node } = lane, part = cluster.partitions[partition]!;
  const replica = part.replicas.get(part.leader), leader = isUp(cluster.nodes[part.leader]) && !hasNoRole(replica) ? replica : undefined;
  const isCommitted = run.head.built.includes(`${nameOf(run.tape, node)} isolation.level=read_committed`), isHeld = isCommitted && part.stable !== NOTHING;
  const readable = leader ? Math.min(leader.hw, leader.leo, isHeld ? part.stable : Infinity) : 0, limit = isHeld ? "last stable offset" : "high watermark";
  const endings = leader && isCommitted ? endingsOf(part, leader, first) : undefined;
  idle(group, scene, lane, head);
  group.append(nameText({ class: "lane-name", x: 12, y: y + 22 }, node >= 0 ? names.get(nameOf(run.tape, node))! : "Consumers", head - 16, LANE_LETTER));
  const position = node >= 0 ? cluster.positions.get(`${node}/${partition}`) : undefined;
  if (position !== undefined) group.append(s("text", { class: "small", x: 12, y: y + 40 }, `position ${position}`));
  const text = leader ? (room < 9 ? `Readable below ${isHeld ? readable : leader.hw}` : `Readable: ${isCommitted ? "what is committed, " : ""}below the leader's ${limit} ${isHeld ? readable : leader.hw}${run.head.sampled && `, ${run.head.sampled}`}`) : "Nothing is readable: no broker leads";
  group.append(s("text", { class: `small ${leader ? "muted" : "bad"}`, x: left, y: y + 12 }, scene.compact ? (leader ? `readable below ${isHeld ? readable : leader.hw}` : "nothing readable") : text));
  if (leader && readable < first) group.append(endsBefore(left, y + 39, readable));
  else for (let offset = first; offset < first + room; offset += 1) {
    const x = left + (offset - first) * (CELL + GAP), cell = offset < readable ? leader?.cells[offset] : undefined;
    const isThere = offset < readable && offset >= (leader?.start ?? 0) && endings?.get(offset) !== ABORTED && !(leader && markerOf(part, leader, offset));
    group.append(s("g", { class: `told ${isThere ? "acked" : "empty"}` }, s("rect", { x, y: y + 20, width: CELL, height: 28, rx: 5 }),
      nameText({ class: "name", x: x + CELL / 2, y: y + 39, "text-anchor": "middle" }, isThere ? names.get(run.tape.records[cell?.record ?? NOTHING] ?? "") ?? "\u00b7" : "", CELL - 3, LETTER)));
  }
  // Left of the window it points there.
  if (position !== undefined && position <= first + room)
    group.append(s("path", { class: "position", d: position < first ? `M${left - 14} ${y + 34} l10 -6 v12 z` : `M${left + (position - first) * (CELL + GAP) - 1} ${y + 50} l-6 10 h12 z` }));
}

function drawController(group: SVGGElement, scene: Scene, lane: Lane, head: number, left: number, names: Map<string, string>): void {
  const { run, cluster, partition } = scene, part = cluster.partitions[partition]!, letter = 6.8;
  group.append(nameText({ class: "lane-name", x: 12, y: lane.y + 20 }, `${names.get(nameOf(run.tape, lane.node))}${head < HEAD ? "" : " controller"}`, head - 16, LANE_LETTER));
  const tooFew = part.exists && part.isr.length < part.minIsr, text = (isr: string[]): string => (part.exists ? `ISR {${isr.join(", ")}}${tooFew ? ` < min ${part.minIsr}` : ""}` : "no such partition");
  const isr = part.isr.map((node) => nameOf(run.tape, node)), whole = text(isr), isTooLong = whole.length > lettersIn(head - 16, letter);
  group.append(nameText({ class: `mono small ${tooFew ? "bad" : part.exists ? "" : "muted"}`, x: 12, y: lane.y + 38 }, isTooLong ? text(isr.map((name) => names.get(name) ?? name)) : whole, head - 16, letter));
  if (hasNoRole(part.replicas.get(part.leader)))
    group.append(nameText({ class: "small muted", x: left, y: lane.y + 20 }, `${nameOf(run.tape, lane.node)} still calls ${nameOf(run.tape, part.leader)} the leader`, 260, 6.6));
}

// ---------------------------------------------------------------------------------------------------------- messages

const COLOUR_OF: Record<string, string> = {
  batch_appended: "records", record_acked: "ack", batch_refused: "refusal", follower_fetched: "fetch", record_read: "read",
};

/** A sliding diagram of space and time: a message is a line from its sender's row to its receiver's. */
function drawWire(scene: Scene, lanes: Lane[], x0: number, width: number): SVGGElement {
  const { tape } = scene.run, place = scene.cluster.place, now = scene.now;
  const yOf = new Map(lanes.map((lane) => [lane.node, lane.y + lane.height / 2 - (lane.role === "broker" ? 8 : 0)]));
  const bottomY = lanes.at(-1)!.y + lanes.at(-1)!.height, clip = `wire-${Math.round(width)}-${lanes.length}`;
  const group = s("g", { class: "wire", "clip-path": `url(#${clip})` }, s("clipPath", { id: clip }, s("rect", { x: x0, y: 4, width, height: bottomY })));
  const nowX = x0 + width - 46, bottom = lanes.at(-1)!.y + lanes.at(-1)!.height;
  const seen: { from: Place; to: Place }[] = [];
  for (let to = place + 400; to > place - 600 && seen.length < 60; to -= 1) {
    const from = tape.sender[to] ?? NOTHING;
    if (from < 0 || from > place || !yOf.has(tape.node[to]!) || !yOf.has(tape.node[from]!)) continue;
    if (!tape.changes[to]!.length && kindOf(tape, to) !== "follower_fetched" && to <= place - 200) continue;
    seen.push({ from, to });
  }
  // A fetch may wait half a second for records; beside it, what takes milliseconds would be one upright line.
  const quick = seen.filter(({ to }) => kindOf(tape, to) !== "follower_fetched");
  const oldest = (quick.length ? quick : seen).slice(0, 8).reduce((least, { from }) => Math.min(least, tape.at[from]!), now);
  const span = Math.min(400_000, Math.max(6_000, now - oldest)), xAt = (at: number): number => nowX - ((now - at) / span) * (width - 60);
  group.append(s("rect", { class: "wire-area", x: x0, y: 6, width, height: bottom - 10, rx: 8 }),
    s("text", { class: "small muted", x: x0 + 6, y: 20 }, `${span < 1e6 ? `${Math.round(span / 1000)} ms` : `${span / 1e6} s`} past`),
    s("text", { class: "small strong", x: nowX, y: 20, "text-anchor": "middle" }, "now"));
  for (const [node, y] of yOf) {
    const state = scene.cluster.nodes[node];
    group.append(s("line", { class: state === DOWN ? "row down" : state === PAUSED ? "row frozen" : "row", x1: x0, x2: x0 + width, y1: y, y2: y }));
  }
  group.append(s("line", { class: "now", x1: nowX, x2: nowX, y1: 26, y2: bottom - 8 }));
  let labels = 0;
  if (!seen.some(({ to }) => to > place || tape.at[to]! >= now - span)) group.append(s("text", { class: "small muted", x: x0 + 6, y: bottom - 16 }, "no message here now"));
  for (const { from, to } of seen) {
    const sent = tape.at[from]!, received = tape.at[to]!;
    if (received < now - span) continue;
    const y1 = yOf.get(tape.node[from]!)!, y2 = yOf.get(tape.node[to]!)!, isUnderway = to > place;
    const part = isUnderway ? Math.max(0.04, Math.min(0.96, (now - sent) / Math.max(1, received - sent))) : 1;
    const x2 = isUnderway ? nowX : xAt(received), y = y1 + (y2 - y1) * part;
    const kind = COLOUR_OF[kindOf(tape, to)] ?? "control";
    group.append(s("g", { "data-target": `${nameOf(tape, tape.node[from]!)} ${nameOf(tape, tape.node[to]!)}` }, s("line", { class: "message-area", x1: xAt(sent), y1, x2, y2: y }),
      s("line", { class: `message ${kind}${isUnderway ? " underway" : ""}`, x1: xAt(sent), y1, x2, y2: y }), s("circle", { class: `message-head ${kind}`, cx: x2, cy: y, r: isUnderway ? 5 : 3 })));
    if (to === place && labels === 0) {
      labels += 1;
      group.append(s("text", { class: "small strong", x: Math.min(x2 - 8, nowX - 8), y: y2 + (y2 > y1 ? -8 : 18), "text-anchor": "end" }, kind));
    }
  }
  return group;
}

/** withTransactions: the run has some */
export function legend(withTransactions: boolean): HTMLElement {
  const item = (kind: string, words: string): HTMLElement => h("span", { class: "legend-item" }, h("i", { class: `swatch ${kind}` }), words);
  return h("p", { class: "legend" }, item("committed", "committed, below HW"), item("uncommitted", "not committed"),
    item("lost", `${LOST.sign} ${LOST.word}`), item("end", "LEO, end of the log"), item("water", "HW, high watermark"), ...(withTransactions ? transactionsLegend() : []), h("span", { class: "legend-item" }, "e0 leader epoch"), h("span", { class: "legend-item" }, "\u265B leader"),
    h("span", { class: "legend-item of-records" }, `records of the producer: ${[...Object.values(TOLD), MISSING, LOST].map(({ sign, word }) => `${sign} ${word}`).join("   ")}`),
    h("span", { class: "legend-item of-messages" }, "messages:", ...Object.entries(MESSAGES).flatMap(([kind, words]) => [messageSwatch(kind), words])));
}

/** What the lines between the rows are, by the class of their colour. A narrow stage has none of them. */
const MESSAGES: Record<string, string> = { records: "records", ack: "ack, read", fetch: "fetch", refusal: "refusal", control: "control: ISR, leaders, epochs" };

const messageSwatch = (kind: string): SVGElement => s("svg", { width: 26, height: 12, "aria-hidden": "true" },
  s("line", { class: `message ${kind}`, x1: 1, x2: 22, y1: 6, y2: 6 }), s("circle", { class: `message-head ${kind}`, cx: 22, cy: 6, r: 3 }));

const STATE_WORDS: Record<number, string> = { [DOWN]: "down, ", [PAUSED]: "frozen, ", [NOT_STARTED]: "not started, " };

/** The stage in words, for a screen reader and for the key x. */
export function describe(scene: Scene): string {
  const { run, cluster, partition, replicas } = scene, part = cluster.partitions[partition];
  if (!part || !part.exists) return "The partition does not exist yet.";
  const isIdle = (node: Place): boolean => isUp(cluster.nodes[node]) && hasNoRole(part.replicas.get(node));
  const words = replicas.map((node) => {
    const replica = part.replicas.get(node), state = cluster.nodes[node];
    const role = isIdle(node) ? `starting${part.isr.includes(node) ? ", in the ISR" : ""}` : part.leader === node ? "the leader" : part.isr.includes(node) ? "in the ISR" : "out of the ISR";
    return `${[nameOf(run.tape, node), rackOf(run, node)].filter(Boolean).join(", ")} is ${STATE_WORDS[state ?? NOT_STARTED] ?? ""}${role}, LEO ${replica?.leo ?? 0}, HW ${replica?.hw ?? 0}.`;
  });
  const leader = part.leader >= 0 && !isIdle(part.leader) ? `${nameOf(run.tape, part.leader)} leads in epoch ${part.epoch}${part.stable === NOTHING ? "" : `, LSO ${part.stable}`}` : "no broker leads";
  return `${run.tape.partitions[partition]}: ${leader}. ${words.join(" ")}`;
}

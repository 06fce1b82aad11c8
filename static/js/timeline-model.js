// One answer of the timeline endpoint, made ready to draw: times as numbers, cells unpacked, attempts stacked where
// they overlap, and a way between sequence and time.

import { parse } from "./times.js";

const DEEPEST_STACK = 4;
const STATES = ["", "live", "wait", "ok", "cancelled", "fail"];

const time = (text) => (text ? parse(text) : null);
const micros = (value) => (value === null ? null : value / 1000);

const readWait = (wait) => ({ from: wait.from, to: wait.to, start: time(wait.startAt), end: time(wait.endAt), kind: wait.kind ?? "" });

function readSpan(span) {
  return {
    from: span.from, to: span.to, start: time(span.startAt), end: time(span.endAt), status: span.status, attempt: span.attempt,
    startSeen: span.startSeen !== false, label: span.label ?? "", waits: (span.waits ?? []).map(readWait), level: 0,
  };
}

const readBar = ([from, to, start, end, status]) => ({ from, to, start: micros(start), end: micros(end), status });

/** Four numbers a cell, two of them as steps from the cell before. */
function readCells(flat) {
  const cells = [];
  let bin = 0, first = 0;
  for (let at = 0; at < flat.length; at += 4) {
    bin += flat[at];
    first += flat[at + 3];
    cells.push({ bin, count: flat[at + 1], worst: STATES[flat[at + 2]], first });
  }
  return cells;
}

/** Gives overlapping attempts a level each, so that none hides another. Returns how many levels there are. */
function stack(spans) {
  const free = [];
  for (const span of spans) {
    let level = free.findIndex((until) => until <= span.start);
    if (level < 0) level = free.length < DEEPEST_STACK ? free.length : DEEPEST_STACK - 1;
    free[level] = Math.max(span.end ?? Infinity, free[level] ?? -Infinity);
    span.level = level;
  }
  return Math.max(1, free.length);
}

function readLane(lane) {
  const spans = (lane.spans ?? []).map(readSpan).sort((a, b) => a.from - b.from);
  const cells = readCells(lane.cells ?? []);
  return {
    ...lane, key: keyOf(lane.node), spans, cells, bars: (lane.bars ?? []).map(readBar), events: lane.events,
    most: cells.reduce((most, cell) => Math.max(most, cell.count), 1), levels: stack(spans), ticks: [],
  };
}

/** Lanes are known by their node; no node has an empty id, so the lane of events without one has. */
export const keyOf = (node) => node ?? "";

export class Model {
  constructor(answer) {
    const { run, window } = answer;
    this.answer = answer;
    this.run = { ...run, start: time(run.startedAt), end: time(run.endedAt), last: time(run.lastAt), now: time(run.now) };
    this.heardAt = performance.now();
    this.axis = answer.axis;
    this.bins = answer.bins;
    this.lanes = answer.lanes.map(readLane);
    this.byKey = new Map(this.lanes.map((lane) => [lane.key, lane]));
    this.lanesTotal = answer.lanesTotal;
    this.lanesHidden = answer.lanesHidden;
    this.matching = answer.matching;
    this.isDense = answer.dense;
    this.writes = answer.writes.map((write) => ({ ...write, at: time(write.at) }));
    this.writeBuckets = (answer.writeBuckets ?? []).map((bucket) => ({ ...bucket, start: time(bucket.startAt), end: time(bucket.endAt) }));
    this.writesTotal = answer.writesTotal;
    this.runWrites = answer.runWrites;
    this.marks = answer.marks.map((mark) => ({ ...mark, at: time(mark.at) }));
    this.reversals = answer.reversals.map(([sequence, at, by]) => ({ sequence, at: at / 1000, by: by / 1000 }));
    this.reversalsTotal = answer.reversalsTotal;
    this.from = window.from;
    this.to = window.to;
    this.windowStart = time(window.startAt) ?? this.run.start;
    this.windowEnd = time(window.endAt);
    this.events = answer.events?.map((event) => ({ ...event, at: time(event.at) })) ?? null;
    this.eventAt = new Map((this.events ?? []).map((event) => [event.sequence, event]));
    for (const event of this.events ?? []) this.byKey.get(keyOf(event.node))?.ticks.push(event);
    this.links = (answer.links ?? []).map(([from, to, kind]) => ({ from: this.eventAt.get(from), to: this.eventAt.get(to), kind }))
      .filter((link) => link.from && link.to);
    this.isWhole = this.from <= (run.firstSequence ?? 0) && this.to >= (run.lastSequence ?? 0);
    this.#anchor();
  }

  get isOpen() {
    return !this.run.terminal;
  }

  /** The server's clock, moved on by how long ago it told us. */
  now() {
    return (this.run.now ?? Date.now()) + (performance.now() - this.heardAt);
  }

  /** Where what has no end stops: now in an open run, its last event in one that is over. */
  edge() {
    return this.isOpen ? Math.max(this.now(), this.run.last ?? 0) : (this.run.last ?? this.run.end ?? this.now());
  }

  /** The edges of a bin in values of the axis that the answer was cut by. */
  binStart(bin) {
    const [start, end] = this.axis === "time" ? [this.windowStart, this.windowEnd] : [this.from, this.to + 1];
    return start + ((end - start) * bin) / this.bins;
  }

  /** Known places of sequences in time, sorted by sequence, never going back: what the axes are mapped by. */
  #anchor() {
    const known = new Map();
    const add = (sequence, at) => {
      if (Number.isFinite(sequence) && at !== null && Number.isFinite(at) && !known.has(sequence)) known.set(sequence, at);
    };
    for (const event of this.events ?? []) add(event.sequence, event.at);
    for (const write of this.writes) add(write.sequence, write.at);
    for (const mark of this.marks) add(mark.sequence, mark.at);
    for (const lane of this.lanes) {
      for (const span of lane.spans) {
        add(span.from, span.start);
        add(span.to, span.end);
        for (const wait of span.waits) add(wait.from, wait.start);
      }
      for (const bar of lane.bars) {
        add(bar.from, bar.start);
        add(bar.to, bar.end);
      }
      if (this.axis === "time" && this.windowEnd !== null) for (const cell of lane.cells) add(cell.first, this.binStart(cell.bin));
    }
    for (const bucket of this.writeBuckets) add(bucket.from, bucket.start);
    add(this.from, this.windowStart);
    add(this.to, this.windowEnd);
    add(this.run.firstSequence, this.run.start);
    add(this.run.lastSequence, this.run.last);
    const sorted = [...known].sort((a, b) => a[0] - b[0]);
    this.anchorSequences = sorted.map(([sequence]) => sequence);
    let latest = -Infinity;
    this.anchorTimes = sorted.map(([, at]) => (latest = Math.max(latest, at)));
  }

  timeAt(sequence) {
    return interpolate(this.anchorSequences, this.anchorTimes, sequence);
  }

  sequenceAt(at) {
    return interpolate(this.anchorTimes, this.anchorSequences, at);
  }

  /** The whole run in values of an axis: [start, end]. */
  extents(axis) {
    if (axis === "sequence") {
      const first = this.run.firstSequence ?? 0;
      return [first - 0.5, Math.max(this.run.lastSequence ?? 0, first + 1) + 0.5];
    }
    const start = Math.min(this.run.start ?? Infinity, this.overviewStart ?? this.windowStart ?? Infinity);
    const end = Math.max(this.run.last ?? -Infinity, this.isOpen ? this.now() : -Infinity);
    const size = Math.max(end - start, 1);
    return [start - size * 0.01, start + size * 1.02];
  }

  summary() {
    const some = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
    const failed = this.lanes.filter((lane) => lane.status === "fail").length;
    const waiting = this.lanes.filter((lane) => lane.status === "wait").length;
    const unseen = this.lanes.reduce((count, lane) => count + lane.spans.filter((span) => !span.startSeen).length, 0);
    const parts = [some(this.lanesTotal, "lane"), some(this.run.events, "event"), some(this.runWrites, "memory write")];
    if (failed) parts.push(some(failed, "failed node"));
    if (waiting) parts.push(`${waiting.toLocaleString("en")} waiting`);
    if (unseen) parts.push(`${unseen.toLocaleString("en")} without a start event`);
    return parts.join(", ");
  }
}

/** What is known of the whole run, from the last answer that told it. */
export class Whole {
  constructor(answer) {
    const { overview } = answer;
    this.axis = answer.axis;
    this.counts = overview.counts;
    this.most = Math.max(1, ...overview.counts);
    this.fails = overview.fails;
    this.writes = overview.writes;
    this.start = time(overview.startAt);
    this.end = time(overview.endAt);
    this.first = answer.run.firstSequence ?? 0;
    this.last = answer.run.lastSequence ?? 0;
    this.gaps = answer.gaps.map(([from, to, start, end]) => ({ from, to, start: start / 1000, end: end / 1000 }));
    this.children = answer.children.map((child) => ({ ...child, key: keyOf(child.node), start: time(child.startAt), end: time(child.endAt) }));
    this.childrenOf = Map.groupBy ? Map.groupBy(this.children, (child) => child.key) : groups(this.children);
  }

  binStart(bin) {
    const [start, end] = this.axis === "time" ? [this.start, this.end] : [this.first, this.last + 1];
    return start + ((end - start) * bin) / Math.max(1, this.counts.length);
  }
}

function groups(children) {
  const found = new Map();
  for (const child of children) found.set(child.key, [...(found.get(child.key) ?? []), child]);
  return found;
}

/** Linear between known points, the nearest point outside of them; `xs` ascending. */
export function interpolate(xs, ys, x) {
  const count = xs.length;
  if (!count) return 0;
  let low = 0, high = count;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (xs[middle] < x) low = middle + 1;
    else high = middle;
  }
  if (low === 0) return ys[0] + (count > 1 ? 0 : x - xs[0]);
  if (low === count) return ys[count - 1];
  const [x0, x1, y0, y1] = [xs[low - 1], xs[low], ys[low - 1], ys[low]];
  return x1 === x0 ? y1 : y0 + ((x - x0) / (x1 - x0)) * (y1 - y0);
}

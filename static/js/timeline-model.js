// One answer of the timeline endpoint, made ready to draw: times as numbers, attempts stacked where they overlap,
// and a way between sequence and time.

import { parse } from "./times.js";

const DEEPEST_STACK = 4;

const time = (text) => (text ? parse(text) : null);

function readWait(wait) {
  return { from: wait.from, to: wait.to, start: time(wait.startAt), end: time(wait.endAt), kind: wait.kind ?? "" };
}

function readSpan(span) {
  return {
    from: span.from,
    to: span.to,
    start: time(span.startAt),
    end: time(span.endAt),
    status: span.status,
    attempt: span.attempt,
    startSeen: span.startSeen !== false,
    label: span.label ?? "",
    waits: (span.waits ?? []).map(readWait),
    level: 0,
  };
}

function readBucket(bucket) {
  return { ...bucket, start: time(bucket.startAt), end: time(bucket.endAt) };
}

/** Gives overlapping attempts a level each, so that none hides another. Returns how many levels there are. */
function stack(spans) {
  const free = [];
  for (const span of spans) {
    const end = span.end ?? Infinity;
    let level = free.findIndex((until) => until <= span.start);
    if (level < 0) level = free.length < DEEPEST_STACK ? free.length : DEEPEST_STACK - 1;
    free[level] = Math.max(end, free[level] ?? -Infinity);
    span.level = level;
  }
  return Math.max(1, free.length);
}

function readLane(lane) {
  const spans = (lane.spans ?? []).map(readSpan).sort((a, b) => a.from - b.from);
  const buckets = (lane.buckets ?? []).map(readBucket);
  return {
    node: lane.node,
    status: lane.status,
    attempts: lane.attempts,
    events: lane.events,
    first: lane.first,
    last: lane.last,
    spans,
    buckets,
    most: buckets.reduce((most, bucket) => Math.max(most, bucket.count), 1),
    levels: stack(spans),
  };
}

export class Model {
  constructor(answer) {
    const { run, window } = answer;
    this.run = {
      ...run,
      start: time(run.startedAt),
      end: time(run.endedAt),
      now: time(run.now),
    };
    this.heardAt = performance.now();
    this.lanes = (answer.lanes ?? []).map(readLane);
    this.lanesTotal = answer.lanesTotal ?? this.lanes.length;
    this.writes = (answer.writes ?? []).map((write) => ({ ...write, at: time(write.at) }));
    this.writeBuckets = (answer.writeBuckets ?? []).map(readBucket);
    this.writesTotal = answer.writesTotal ?? this.writes.length;
    this.marks = (answer.marks ?? []).map((mark) => ({ ...mark, at: time(mark.at) }));
    this.from = window?.from ?? run.firstSequence ?? 0;
    this.to = window?.to ?? run.lastSequence ?? 0;
    this.windowStart = time(window?.startAt) ?? this.run.start;
    this.windowEnd = time(window?.endAt);
    this.isDense = this.writeBuckets.length > 0 || this.lanes.some((lane) => lane.buckets.length > 0);
    this.isWhole = this.from <= (run.firstSequence ?? 0) && this.to >= (run.lastSequence ?? 0);
    this.lastEnd = this.lanes.reduce((last, lane) => lane.spans.reduce((at, span) => Math.max(at, span.end ?? at), last), -Infinity);
    this.#anchor();
  }

  get isOpen() {
    return !(this.run.terminal ?? this.run.endedAt !== null);
  }

  /** The server's clock, moved on by how long ago it told us. */
  now() {
    return (this.run.now ?? Date.now()) + (performance.now() - this.heardAt);
  }

  /** Where what has no end stops: now in an open run, the run's end in one that is over. */
  edge() {
    return this.isOpen ? this.now() : (this.run.end ?? this.anchorTimes.at(-1) ?? this.now());
  }

  /** Known places of sequences in time, sorted by sequence, never going back: what the axes are mapped by. */
  #anchor() {
    const known = new Map();
    const add = (sequence, at) => {
      if (Number.isFinite(sequence) && Number.isFinite(at) && at !== null && !known.has(sequence)) known.set(sequence, at);
    };
    for (const write of this.writes) add(write.sequence, write.at);
    for (const mark of this.marks) add(mark.sequence, mark.at);
    for (const lane of this.lanes) {
      for (const span of lane.spans) {
        add(span.from, span.start);
        if (span.end !== null) add(span.to, span.end);
        for (const wait of span.waits) add(wait.from, wait.start);
      }
      for (const bucket of lane.buckets) {
        add(bucket.from, bucket.start);
        add(bucket.to, bucket.end);
      }
    }
    for (const bucket of this.writeBuckets) add(bucket.from, bucket.start);
    add(this.from, this.windowStart);
    add(this.to, this.windowEnd);
    add(this.run.firstSequence, this.run.start);
    add(this.run.lastSequence, this.run.end);
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

  /** The whole run on an axis: [start, end]. */
  extents(axis) {
    if (axis === "sequence") {
      const first = this.run.firstSequence ?? 0;
      return [first - 0.5, Math.max(this.run.lastSequence ?? 0, first + 1) + 0.5];
    }
    const start = this.run.start ?? this.windowStart ?? this.anchorTimes[0] ?? 0;
    let end = this.run.end ?? this.anchorTimes.at(-1) ?? start;
    if (this.isOpen) end = Math.max(end, this.now());
    end = Math.max(end, this.lastEnd);
    const size = Math.max(end - start, 1);
    return [start - size * 0.01, start + size * 1.02];
  }

  summary() {
    const attempts = this.lanes.flatMap((lane) => lane.spans);
    const failed = attempts.filter((span) => span.status === "fail").length;
    const waiting = attempts.filter((span) => span.waits.some((wait) => wait.end === null)).length;
    const unseen = attempts.filter((span) => !span.startSeen).length;
    const parts = [
      `${this.lanesTotal.toLocaleString("en")} node${this.lanesTotal === 1 ? "" : "s"}`,
      `${this.writesTotal.toLocaleString("en")} memory write${this.writesTotal === 1 ? "" : "s"}`,
    ];
    if (failed) parts.push(`${failed.toLocaleString("en")} failed attempt${failed === 1 ? "" : "s"}`);
    if (waiting) parts.push(`${waiting} waiting`);
    if (unseen) parts.push(`${unseen} without a start event`);
    return parts.join(", ");
  }
}

/** Linear between known points, the nearest point outside of them; `xs` ascending. */
function interpolate(xs, ys, x) {
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

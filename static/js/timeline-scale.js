// From values of the axis (a time, a sequence) to units of length and back. They are the same, unless idle gaps of
// the time axis are collapsed: then each gap is as long as a fixed share of the time that was not idle.

import { interpolate } from "./timeline-model.js";

const SHARE = 0.03; // of the busy time, for each collapsed gap

export class Scale {
  constructor(gaps = [], extents = [0, 1]) {
    this.gaps = gaps;
    if (!gaps.length) return;
    const idle = gaps.reduce((sum, gap) => sum + gap.end - gap.start, 0);
    this.size = Math.max(extents[1] - extents[0] - idle, 1) * SHARE;
    this.values = [extents[0]];
    this.units = [extents[0]];
    for (const gap of gaps) {
      this.#add(gap.start, gap.start - this.values.at(-1));
      this.#add(gap.end, Math.min(this.size, gap.end - gap.start));
    }
    this.#add(extents[1], extents[1] - this.values.at(-1));
  }

  #add(value, size) {
    this.values.push(value);
    this.units.push(this.units.at(-1) + Math.max(size, 1e-6));
  }

  unit(value) {
    if (!this.gaps.length) return value;
    const [first, last] = [this.values[0], this.values.at(-1)];
    if (value < first) return this.units[0] - (first - value);
    return value > last ? this.units.at(-1) + (value - last) : interpolate(this.values, this.units, value);
  }

  value(unit) {
    if (!this.gaps.length) return unit;
    const [first, last] = [this.units[0], this.units.at(-1)];
    if (unit < first) return this.values[0] - (first - unit);
    return unit > last ? this.values.at(-1) + (unit - last) : interpolate(this.units, this.values, unit);
  }

  /** The stretches of [from, to] (values) that are not collapsed. */
  busy(from, to) {
    const parts = [];
    let start = from;
    for (const gap of this.gaps) {
      if (gap.end <= from || gap.start >= to) continue;
      if (gap.start > start) parts.push([start, gap.start]);
      start = Math.max(start, gap.end);
    }
    if (start < to) parts.push([start, to]);
    return parts;
  }
}

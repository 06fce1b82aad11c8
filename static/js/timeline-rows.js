// Where the lanes' rows stand. Most rows are of one height; those that are not are few and kept by their place,
// so that a hundred thousand lanes cost no more than ten.

import { CHILD, FOLDED, ROW, rowHeight } from "./timeline-paint.js";

const CHILDREN_AT_ONCE = 3; // more of them are a number until they are asked for
const NESTED_LANES = 24;

export class Rows {
  constructor() {
    this.folded = new Set(); // keys of lanes
    this.isFolded = false; // all lanes but those in `folded`
    this.pins = new Set();
    this.stacked = new Set();
    this.shown = new Set(); // lanes whose many children are shown
    this.opened = new Map(); // run of a child → its Model
    this.total = 0;
    this.lanes = new Map(); // place → lane
    this.odd = []; // [place, height], ascending
  }

  folds(key) {
    return this.folded.has(key) !== this.isFolded;
  }

  fold(key, on = !this.folds(key)) {
    if (on === this.isFolded) this.folded.delete(key);
    else this.folded.add(key);
  }

  foldAll(on) {
    this.isFolded = on;
    this.folded.clear();
  }

  get base() {
    return this.isFolded ? FOLDED : ROW;
  }

  /** The children of a lane that have a row, and how many have none. */
  children(lane, whole) {
    const all = whole?.childrenOf.get(lane.key) ?? [];
    const shows = !this.folds(lane.key) && (all.length <= CHILDREN_AT_ONCE || this.shown.has(lane.key));
    return { all, rows: shows ? all : [] };
  }

  /** Nested lanes of a child that is opened. */
  nested(child) {
    const model = this.opened.get(child.run);
    return model ? model.lanes.slice(0, NESTED_LANES) : [];
  }

  lay(model, whole) {
    this.total = model.lanesTotal;
    this.lanes = new Map(model.lanes.map((lane) => [lane.place, lane]));
    this.pinned = model.lanes.filter((lane) => this.pins.has(lane.key));
    this.whole = whole;
    this.odd = [];
    for (const lane of model.lanes) {
      const height = this.pins.has(lane.key) ? 0 : this.heightOf(lane);
      if (height !== this.base) this.odd.push([lane.place, height]);
    }
    this.odd.sort((a, b) => a[0] - b[0]);
    this.pinnedHeight = this.pinned.reduce((sum, lane) => sum + this.heightOf(lane), 0);
    this.height = this.offset(this.total);
  }

  heightOf(lane) {
    const isFolded = this.folds(lane.key);
    const own = rowHeight(this.levels(lane), isFolded);
    const { rows } = this.children(lane, this.whole);
    return own + rows.reduce((sum, child) => sum + CHILD + this.nested(child).length * CHILD, 0);
  }

  /** Attempts lie side by side; stacked, each has a level of its own. */
  levels(lane) {
    return this.stacked.has(lane.key) ? Math.max(1, Math.min(6, lane.spans.length)) : lane.levels;
  }

  offset(place) {
    let top = place * this.base;
    for (const [at, height] of this.odd) {
      if (at >= place) break;
      top += height - this.base;
    }
    return top;
  }

  placeAt(offset) {
    let low = 0, high = this.total;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.offset(middle + 1) <= offset) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** The rows between two heights: lanes, or places of lanes that have not been asked for. */
  between(from, to, top) {
    const rows = [];
    for (let place = this.placeAt(from); place < this.total; place++) {
      const offset = this.offset(place);
      if (offset >= to) break;
      const lane = this.lanes.get(place);
      if (lane && this.pins.has(lane.key)) continue;
      rows.push(this.row(lane ?? null, place, top + offset - from));
    }
    return rows;
  }

  row(lane, place, top, isPinned = false) {
    if (!lane) return { lane: null, place, top, height: this.base, own: this.base, levels: 1, isFolded: this.isFolded, children: [], hidden: 0 };
    const isFolded = this.folds(lane.key);
    const levels = this.levels(lane);
    const { all, rows } = this.children(lane, this.whole);
    const own = rowHeight(levels, isFolded);
    let at = top + own;
    const children = rows.map((child) => {
      const nested = this.nested(child).map((one, index) => ({ lane: one, top: at + CHILD * (index + 1) }));
      const row = { child, top: at, nested, isOpen: this.opened.has(child.run) };
      at += CHILD * (1 + nested.length);
      return row;
    });
    return { lane, place, top, height: at - top, own, levels, isFolded, isPinned, isStacked: this.stacked.has(lane.key), children, hidden: all.length - rows.length };
  }
}

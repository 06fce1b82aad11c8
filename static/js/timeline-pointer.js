// Pointer, wheel and touch on the timeline: what is under a point, and what a click, a drag or a pinch does with it.

import { AXIS, CHILD, HEAD, MINI, barBox, spanEdges } from "./timeline-paint.js";

const REACH = 9; // px around a mark that still hit it
const SNAP = 7; // px within which the edge of a stretch goes to an event

export class Pointer {
  #drag = null;
  #pointers = new Map();

  constructor(timeline, signal) {
    this.timeline = timeline;
    const { canvas, scroller } = timeline;
    const on = (target, name, action, options = {}) => target.addEventListener(name, action, { signal, ...options });
    on(canvas, "pointerdown", (event) => this.#down(event));
    on(canvas, "pointermove", (event) => this.#move(event));
    on(canvas, "pointerup", (event) => this.#up(event));
    on(canvas, "pointercancel", (event) => this.#cancel(event));
    on(canvas, "pointerleave", () => this.#leave());
    on(canvas, "dblclick", (event) => event.offsetX >= timeline.plot && event.offsetY >= HEAD && timeline.zoom(0.4, event.offsetX));
    on(scroller, "wheel", (event) => this.#wheel(event), { passive: false });
    on(document, "pointerdown", (event) => event.target !== canvas && timeline.tips.closeOutside(event.target));
  }

  get isDragging() {
    return this.#drag !== null;
  }

  // --- What is under a point ---

  hit(x, y) {
    const { timeline } = this;
    const { scene } = timeline;
    if (!scene || x < 0 || y < 0) return null;
    if (y < MINI) return x >= timeline.plot ? { kind: "mini" } : null;
    if (y < AXIS) return this.#hitAxis(x);
    if (y < HEAD) return this.#hitMemory(x);
    const inside = (row) => y >= row.top && y < row.top + row.height;
    const row = scene.pinned.find(inside) ?? (y >= HEAD + scene.pinnedHeight ? scene.rows.find(inside) : null);
    if (!row?.lane) return null;
    if (y >= row.top + row.own) return this.#hitChild(row, x, y);
    const { lane } = row;
    if (x < timeline.plot) return { kind: "gutter", row, lane, key: lane.key };
    return this.#hitSpan(row, x, y) ?? { kind: "row", row, lane, key: lane.key };
  }

  #hitAxis(x) {
    const { scene } = this.timeline;
    const near = (sequence, at) => Math.abs(this.timeline.xOf(sequence, at) - x) < REACH;
    const reversal = scene.reversals.find((one) => near(one.sequence, one.at));
    if (reversal) return { kind: "reversal", reversal };
    const mark = scene.marks.find((one) => near(one.sequence, one.at));
    if (mark) return { kind: "mark", mark };
    const gap = scene.gaps.find((one) => x >= this.timeline.xOf(one.from, one.start) && x <= this.timeline.xOf(one.to, one.end));
    return gap ? { kind: "gap", gap } : null;
  }

  #hitMemory(x) {
    const { timeline } = this;
    if (x < timeline.plot) return null;
    const writes = timeline.scene.writes
      .map((write) => ({ write, distance: Math.abs(timeline.xOf(write.sequence, write.at) - x) }))
      .filter((one) => one.distance < REACH).sort((a, b) => a.distance - b.distance);
    if (writes.length) {
      // All that one mark stands for, the nearest first.
      const at = timeline.xOf(writes[0].write.sequence, writes[0].write.at);
      const fan = writes.filter((one) => Math.abs(timeline.xOf(one.write.sequence, one.write.at) - at) < 3).map((one) => one.write);
      return { kind: "write", write: writes[0].write, fan: fan.sort((a, b) => a.sequence - b.sequence) };
    }
    const bucket = timeline.scene.writeBuckets.find((one) => x >= timeline.xOf(one.from, one.start) - 2 && x <= timeline.xOf(one.to, one.end) + 2);
    return bucket ? { kind: "writes", bucket } : null;
  }

  #hitSpan(row, x, y) {
    const { scene } = this.timeline;
    const tick = nearest(row.lane.ticks, (event) => Math.abs(this.timeline.xOf(event.sequence, event.at) - x), 4);
    if (tick && (y > row.top + row.own - 13 || !row.lane.spans.length)) return { kind: "event", event: tick, row, lane: row.lane, key: row.lane.key };
    let found = null;
    for (const [index, span] of row.lane.spans.entries()) {
      const [left, right] = spanEdges(scene, span);
      if (x < left - 2 || x > right + 2) continue;
      const [top, height] = barBox(row, row.isStacked ? index % row.levels : span.level);
      if (row.levels > 1 && !row.isFolded && (y < top - 1 || y > top + height + 1)) continue;
      found = { kind: "span", span, row, lane: row.lane, key: row.lane.key, left, right };
    }
    if (found) return found;
    const cell = row.lane.cells.find((one) => x >= scene.x(scene.binStart(one.bin)) - 1 && x <= scene.x(scene.binStart(one.bin + 1)) + 1);
    const bar = row.lane.bars.find((one) => {
      const [left, right] = spanEdges(scene, one);
      return x >= left - 1 && x <= right + 1;
    });
    return cell || bar ? { kind: "cell", cell, bar, row, lane: row.lane, key: row.lane.key } : null;
  }

  #hitChild(row, x, y) {
    const child = row.children.find((one) => y >= one.top && y < one.top + CHILD * (1 + one.nested.length));
    if (!child) return { kind: "row", row, lane: row.lane, key: row.lane.key };
    return { kind: "child", child: child.child, isTwisty: x < 34 && y < child.top + CHILD, row, lane: row.lane, key: row.lane.key };
  }

  // --- Pressing and dragging ---

  #down(event) {
    const { timeline } = this;
    if (!timeline.view || event.button > 1) return;
    timeline.scroller.focus({ preventScroll: true });
    this.#pointers.set(event.pointerId, event.offsetX);
    timeline.canvas.setPointerCapture(event.pointerId);
    const { offsetX: x, offsetY: y } = event;
    const { view } = timeline;
    if (this.#pointers.size === 2) this.#drag = { kind: "pinch", gap: this.#gap(), view };
    else if (y < MINI && x >= timeline.plot) this.#drag = { kind: "mini", from: x, y, view, moved: false, inside: this.#isInWindow(x) };
    else if (x >= timeline.plot) {
      const pans = event.shiftKey || event.button === 1 || event.pointerType === "touch";
      this.#drag = { kind: pans ? "pan" : "area", from: x, to: x, y, view, moved: false };
    } else this.#drag = { kind: "gutter", from: x, y, moved: false };
    if (event.button === 1) event.preventDefault();
  }

  #isInWindow(x) {
    const [left, right] = this.timeline.scene?.miniWindow ?? [0, 0];
    return x >= left && x <= right;
  }

  #gap() {
    const [a, b] = [...this.#pointers.values()];
    return { size: Math.max(8, Math.abs(a - b)), middle: (a + b) / 2 };
  }

  #move(event) {
    const { timeline } = this;
    const { offsetX: x, offsetY: y } = event;
    if (this.#pointers.has(event.pointerId)) this.#pointers.set(event.pointerId, x);
    if (this.#drag) return this.#dragTo(x, y);
    if (!timeline.view || !timeline.scene) return;
    const hit = this.hit(x, y);
    const hovered = hit?.key === undefined ? null : { key: hit.key, x, y };
    const changed = hovered?.key !== timeline.hover?.key;
    timeline.hover = hovered;
    if (changed) timeline.draw();
    timeline.canvas.style.cursor = CURSORS[hit?.kind] ?? (x >= timeline.plot ? "crosshair" : "default");
    if (event.pointerType === "touch") return;
    timeline.tips.showTip(x, y, hit);
    timeline.tips.showCross(x, y, this.#snapped(x));
  }

  /** The event nearest to a place, where single events are in view. */
  #snapped(x) {
    const { timeline } = this;
    if (!timeline.model.events) return null;
    return nearest(timeline.model.events, (event) => Math.abs(timeline.xOf(event.sequence, event.at) - x), SNAP);
  }

  #dragTo(x, y) {
    const { timeline } = this;
    const drag = this.#drag;
    timeline.tips.hide();
    if (drag.kind === "pinch") return this.#pinch(drag);
    if (Math.abs(x - drag.from) > 3 || Math.abs(y - drag.y) > 6) drag.moved = true;
    if (!drag.moved) return;
    const pixels = timeline.width - timeline.plot;
    if (drag.kind === "area") {
      drag.to = this.#edge(Math.min(Math.max(x, timeline.plot), timeline.width));
      timeline.area = [this.#edge(drag.from), drag.to].sort((a, b) => a - b);
      timeline.draw();
    } else if (drag.kind === "pan") {
      const move = ((drag.from - x) / pixels) * (drag.view[1] - drag.view[0]);
      timeline.follow(false);
      timeline.setView(drag.view[0] + move, drag.view[1] + move, { rest: false });
    } else if (drag.kind === "mini") this.#dragMini(drag, x);
  }

  /** The part in view is moved; dragging beside it chooses another part. */
  #dragMini(drag, x) {
    const { timeline } = this;
    timeline.follow(false);
    if (drag.inside) {
      const move = timeline.miniUnitAt(x) - timeline.miniUnitAt(drag.from);
      timeline.setView(drag.view[0] + move, drag.view[1] + move, { rest: false });
    } else {
      const [a, b] = [drag.from, x].map((px) => timeline.miniUnitAt(px)).sort((one, other) => one - other);
      timeline.setView(a, b, { rest: false });
    }
  }

  #edge(x) {
    const event = this.#snapped(x);
    return event ? this.timeline.xOf(event.sequence, event.at) : x;
  }

  #pinch(drag) {
    const { timeline } = this;
    const gap = this.#gap();
    const factor = drag.gap.size / gap.size;
    const share = (drag.gap.middle - timeline.plot) / (timeline.width - timeline.plot);
    const [from, to] = drag.view;
    const at = from + share * (to - from);
    timeline.follow(false);
    timeline.setView(at - (at - from) * factor, at + (to - at) * factor, { rest: false });
  }

  #up(event) {
    const { timeline } = this;
    this.#pointers.delete(event.pointerId);
    const drag = this.#drag;
    this.#drag = null;
    timeline.area = null;
    if (!drag) return;
    if (!drag.moved && drag.kind !== "pinch") this.#click(event.offsetX, event.offsetY);
    else if (drag.kind === "area" && Math.abs(drag.to - drag.from) > 4) {
      const [left, right] = [this.#edge(drag.from), drag.to].sort((a, b) => a - b);
      timeline.follow(false);
      timeline.setView(timeline.unitAt(left), timeline.unitAt(right));
    } else timeline.rested();
    timeline.draw();
  }

  #cancel(event) {
    this.#pointers.delete(event.pointerId);
    this.#drag = null;
    this.timeline.area = null;
    this.timeline.draw();
  }

  #leave() {
    this.timeline.tips.hide();
    if (!this.timeline.hover) return;
    this.timeline.hover = null;
    this.timeline.draw();
  }

  // --- Clicks ---

  #click(x, y) {
    const { timeline } = this;
    timeline.tips.hideAll();
    const hit = this.hit(x, y);
    if (!hit) return;
    const act = {
      mini: () => this.#clickMini(x),
      write: () => (timeline.choose(hit.write.sequence, hit.write.at), timeline.tips.showWrites(hit.fan)),
      writes: () => this.#into(hit.bucket.from, hit.bucket.start, timeline.xOf(hit.bucket.from, hit.bucket.start), timeline.xOf(hit.bucket.to, hit.bucket.end)),
      mark: () => timeline.choose(hit.mark.sequence, hit.mark.at),
      reversal: () => timeline.choose(hit.reversal.sequence, hit.reversal.at),
      gap: () => timeline.toggleGaps(),
      event: () => timeline.choose(hit.event.sequence, hit.event.at),
      span: () => this.#clickSpan(hit, x),
      cell: () => this.#clickCell(hit, x),
      child: () => (hit.isTwisty || x >= timeline.plot ? timeline.openChild(hit.child) : location.assign(hit.child.href)),
      gutter: () => this.#clickGutter(hit, x),
    }[hit.kind];
    act?.();
  }

  #clickMini(x) {
    const { timeline } = this;
    const [from, to] = timeline.view;
    const at = timeline.miniUnitAt(x);
    timeline.follow(false);
    timeline.setView(at - (to - from) / 2, at + (to - from) / 2);
  }

  #clickGutter({ lane, key, row }, x) {
    const { timeline } = this;
    if (x < 20) return timeline.fold(key);
    if (row.hidden && x > timeline.plot - 70) return timeline.showChildren(key);
    if (lane.attempts > 1 && lane.spans.length > 1 && x > timeline.plot - 44) return timeline.stack(key);
    if (lane.node !== null) timeline.dispatchEvent(new CustomEvent("timeline:node", { bubbles: true, detail: { node: lane.node } }));
  }

  /** The nearer end of the span: its first or its last event, or a wait's. */
  #clickSpan({ span, left, right }, x) {
    const { timeline } = this;
    const ends = [{ sequence: span.from, at: span.start, x: left }];
    if (span.end !== null) ends.push({ sequence: span.to, at: span.end, x: right });
    for (const wait of span.waits) ends.push({ sequence: wait.from, at: wait.start, x: timeline.xOf(wait.from, wait.start) });
    ends.sort((a, b) => Math.abs(a.x - x) - Math.abs(b.x - x));
    timeline.choose(ends[0].sequence, ends[0].at);
  }

  #clickCell({ cell, bar }, x) {
    const { timeline } = this;
    const { scene } = timeline;
    if (!cell) return timeline.choose(bar.from, bar.start);
    const [left, right] = [scene.x(scene.binStart(cell.bin)), scene.x(scene.binStart(cell.bin + 1))];
    if (cell.count === 1) return timeline.choose(cell.first, null);
    this.#into(cell.first, null, Math.min(left, x - 6), Math.max(right, x + 6));
  }

  /** Selects the first event of a crowd and goes closer to it. */
  #into(sequence, at, left, right) {
    const { timeline } = this;
    const [a, b] = [timeline.unitAt(left), timeline.unitAt(right)];
    const size = Math.max(b - a, (timeline.view[1] - timeline.view[0]) / 60);
    timeline.follow(false);
    timeline.setView((a + b) / 2 - size * 2, (a + b) / 2 + size * 2);
    timeline.choose(sequence, at);
  }

  /** With Ctrl or ⌘ always, without once the timeline has the focus: a page that is scrolled past keeps scrolling. */
  #wheel(event) {
    const { timeline } = this;
    if (!timeline.view) return;
    const x = event.clientX - timeline.canvas.getBoundingClientRect().left;
    const isSideways = Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey;
    const isMeant = event.ctrlKey || event.metaKey;
    if (x < timeline.plot && !isMeant) return;
    if (isSideways) {
      event.preventDefault();
      return timeline.pan((event.deltaX || event.deltaY) / (timeline.width - timeline.plot));
    }
    if (!isMeant && !timeline.contains(document.activeElement)) return;
    event.preventDefault();
    const lines = event.deltaMode === 1 ? event.deltaY * 16 : event.deltaY;
    timeline.zoom(Math.exp(Math.max(-60, Math.min(60, lines)) * 0.006), Math.max(x, timeline.plot));
  }
}

const CURSORS = { write: "pointer", writes: "zoom-in", mark: "pointer", reversal: "pointer", gap: "pointer", event: "pointer", span: "pointer", cell: "zoom-in", child: "pointer", gutter: "pointer", mini: "grab" };

function nearest(items, distance, reach) {
  let best = null, least = reach;
  for (const item of items) {
    const size = distance(item);
    if (size < least) [best, least] = [item, size];
  }
  return best;
}


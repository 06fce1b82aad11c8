// <open-timeline data-src>: fetches, holds the window and what is open in it, and draws. What an answer means is in
// timeline-model.js, rows in timeline-rows.js, collapsed gaps in timeline-scale.js, ticks in timeline-axis.js, pixels in
// timeline-paint.js, pointer and wheel in timeline-pointer.js, tips in timeline-tips.js.
//
// Events out: `timeline:select` {sequence, at}, `timeline:node` {node}, `timeline:window` {isFull, from, to}. In: `select(sequence, at)`, `live:run` on the body.

import { param, params, setParams } from "./address.js";
import { axisName, brokenTicks, sequenceTicks, timeTicks } from "./timeline-axis.js";
import { Model, Whole, keyOf } from "./timeline-model.js";
import { FOLDED, FOOT, HEAD, ROW, forgetCuts, paint } from "./timeline-paint.js";
import { Pointer } from "./timeline-pointer.js";
import { Rows } from "./timeline-rows.js";
import { Scale } from "./timeline-scale.js";
import { Tips } from "./timeline-tips.js";
import { parse, stretch } from "./times.js";

const REFETCH_AFTER = 120; // ms of rest before a changed window asks for finer data
const LINKS_AFTER = 150; // ms; walking along the list does not ask for what every event led to
const LIVE_EVERY = 700; // ms between two questions while a run grows
const FRAMES_WHILE_LIVE = 8; // a second
const NARROWEST = { time: 0.02, sequence: 3 };
const MARGIN = 0.35; // of the window, asked for on either side
const ROWS_ASKED = 60;
const FILTERS = ["node", "type", "kind", "q", "show"];

const reducedMotion = matchMedia("(prefers-reduced-motion: reduce)");

export function part(name, className, parent) {
  const element = document.createElement(name);
  element.className = className;
  parent.append(element);
  return element;
}

class OpenTimeline extends HTMLElement {
  axis = param("axis") === "sequence" ? "sequence" : "time";
  view = null; // [start, end] in units of the axis' scale
  rows = new Rows();
  scale = new Scale();
  selected = null;
  selectedAt = null;
  links = []; // of the selected event
  hover = null;
  area = null; // [left, right] px while a stretch is being drawn
  #model = null;
  #whole = null;
  #collapses = param("gaps") === "fold";
  #following = param("follow") !== "0";
  #asked = null; // the request under way
  #dirty = false;
  #colors = null;
  #firstRow = 0;

  connectedCallback() {
    if (this.canvas) return;
    this.replaceChildren();
    this.scroller = part("div", "tl-scroll", this);
    this.scroller.tabIndex = 0;
    this.scroller.setAttribute("role", "group");
    this.scroller.setAttribute("aria-label", "Timeline, loading");
    this.canvas = part("canvas", "tl-canvas", this.scroller);
    this.canvas.setAttribute("aria-hidden", "true");
    this.spacer = part("div", "tl-spacer", this.scroller);
    this.state = part("div", "tl-state", this);
    this.state.setAttribute("role", "status");
    this.context = this.canvas.getContext("2d", { alpha: false });
    this.tips = new Tips(this);
    this.#readAddress();
    this.#listen();
    this.pointer = new Pointer(this, this.abort.signal);
    // As tall as it is going to be, so that nothing under it moves when the answer comes.
    this.rows.height = Number(this.dataset.nodes || 3) * ROW;
    this.#measure();
    this.#say("loading");
    const [from, to] = [param("from"), param("to")].map((text) => (text === null || text === "" ? NaN : Number(text)));
    this.#fetch(Number.isFinite(from) && Number.isFinite(to) && from <= to ? [from, to] : null, { isFirst: true });
  }

  disconnectedCallback() {
    this.abort?.abort();
    this.sizes?.disconnect();
    clearTimeout(this.liveTimer);
    this.#asked?.abort();
  }

  #readAddress() {
    if (this.dataset.seq) {
      this.selected = Number(this.dataset.seq);
      this.selectedAt = this.dataset.at ? parse(this.dataset.at) : null;
      this.#linksSoon();
    }
    this.rows.isFolded = param("folded") === "all";
    for (const key of params("fold")) this.rows.folded.add(key);
    for (const key of params("pin")) this.rows.pins.add(key);
    for (const key of params("stack")) this.rows.stacked.add(key);
    this.wanted = new Set(params("child"));
  }

  // --- Asking the server ---

  #url(window, { overview = true } = {}) {
    const url = new URL(this.dataset.src, location.href);
    const set = (name, value) => url.searchParams.set(name, value);
    if (window) {
      set("from", Math.max(0, Math.floor(window[0])));
      set("to", Math.max(0, Math.ceil(window[1])));
    }
    set("width", Math.max(200, Math.round(this.width - this.plot) * (window ? 1 + 2 * MARGIN : 1)) | 0);
    if (this.axis === "sequence") set("axis", "sequence");
    if (this.#firstRow) set("row", this.#firstRow);
    set("rows", ROWS_ASKED);
    for (const key of this.rows.pins) url.searchParams.append("pin", key);
    for (const name of FILTERS) if (param(name)) set(name, param(name));
    if (!overview) set("overview", "0");
    return url;
  }

  async #fetch(window, { isFirst = false } = {}) {
    this.#asked?.abort();
    const asking = (this.#asked = new AbortController());
    const filter = FILTERS.map((name) => param(name) ?? "").join("\n");
    const overview = !this.#whole || !window || this.#model?.isOpen || this.#whole.axis !== this.axis || this.filterAsked !== filter;
    try {
      const response = await fetch(this.#url(window, { overview }), { signal: asking.signal, headers: { Accept: "application/json" } });
      if (!response.ok) throw new Error(`The server answered with an error (${response.status}).`);
      if (response.redirected) return location.reload();
      const answer = await response.json();
      this.filterAsked = filter;
      this.#take(answer, window, isFirst);
    } catch (error) {
      if (error.name !== "AbortError") this.#failed(error);
    } finally {
      if (this.#asked === asking) this.#asked = null;
      this.toggleAttribute("data-busy", Boolean(this.#asked));
    }
  }

  #take(answer, window, isFirst) {
    const wasFull = this.#isFull();
    const values = this.view && this.values();
    this.#model = new Model(answer);
    if (answer.overview) this.#whole = new Whole(answer);
    this.#model.overviewStart = this.#whole.start;
    this.#rescale();
    if (isFirst || !this.view) this.view = window ? this.#unitsOf(window) : this.#extents();
    else if (wasFull && this.#following) this.view = this.#extents();
    else if (values) this.view = values.map((value) => this.scale.unit(value));
    this.#lay();
    this.#say(this.#model.lanesTotal || this.#model.runWrites || this.#model.matching ? "ready" : this.#isFiltered() ? "ready" : "empty");
    this.#describe();
    this.draw();
    this.#keepMoving();
    this.#openWanted();
    if (this.#dirty) this.#liveSoon();
    this.dispatchEvent(new CustomEvent("timeline:ready", { bubbles: true }));
  }

  #failed(error) {
    if (this.#model) this.#say("stale", "The timeline could not be brought up to date.", true);
    else this.#say("failed", error instanceof TypeError ? "The server did not answer." : error.message, true);
  }

  #isFiltered() {
    return FILTERS.some((name) => param(name));
  }

  /** Asks again at once: the filter, the axis or what is pinned has changed. */
  ask() {
    if (!this.view) return;
    this.#fetch(this.#isFull() ? null : this.#padded(...this.window()));
  }

  /** Other lanes match: the first of them are looked at. */
  #filterChanged() {
    this.#firstRow = 0;
    this.scroller.scrollTop = 0;
    this.tips.hideAll();
    this.ask();
    this.#toAddressSoon();
  }

  /** Finer data for the window once it rests, or for the lanes that came into view. */
  #refetchSoon() {
    clearTimeout(this.refetchTimer);
    this.refetchTimer = setTimeout(() => {
      const model = this.#model;
      if (!model || !this.view) return;
      const [from, to] = this.window();
      const isCovered = model.isWhole || (from >= model.from - 1 && to <= model.to + 1);
      const isCoarse = (model.isDense || !model.events) && to - from < (model.to - model.from) / (1 + 2 * MARGIN) / 1.3;
      const isPart = this.#isFull() && !model.isWhole;
      if (!isCovered || isCoarse || isPart || this.#missesRows()) this.ask();
    }, REFETCH_AFTER);
  }

  #missesRows() {
    const first = this.rows.placeAt(this.scroller.scrollTop);
    const last = Math.min(this.rows.total, this.rows.placeAt(this.scroller.scrollTop + this.height) + 1);
    for (let place = first; place < last; place++) {
      if (this.rows.lanes.has(place)) continue;
      this.#firstRow = Math.max(0, first - 20);
      return true;
    }
    return false;
  }

  #padded(from, to) {
    const { firstSequence, lastSequence } = this.#model.run;
    const margin = (to - from) * MARGIN;
    return [Math.max(firstSequence ?? 0, from - margin), Math.min(lastSequence ?? to, to + margin)];
  }

  #liveSoon() {
    this.#dirty = true;
    if (this.liveTimer || this.#asked) return;
    this.liveTimer = setTimeout(() => {
      this.liveTimer = null;
      this.#dirty = false;
      this.#fetch(this.#isFull() || !this.view || this.isFollowing ? (this.#isFull() || !this.view ? null : this.#tail()) : this.#padded(...this.window()));
    }, LIVE_EVERY);
  }

  /** The window of a followed run reaches to wherever the log has got to by now. */
  #tail() {
    return [this.#padded(...this.window())[0], Number.MAX_SAFE_INTEGER];
  }

  #linksSoon() {
    this.links = [];
    clearTimeout(this.linksTimer);
    this.linksTimer = setTimeout(() => this.#fetchLinks(), LINKS_AFTER);
  }

  async #fetchLinks() {
    const sequence = this.selected;
    if (sequence === null || !this.dataset.links) return;
    try {
      const response = await fetch(this.dataset.links.replace(/0(?=\D*$)/, String(sequence)), { headers: { Accept: "application/json" } });
      if (!response.ok || this.selected !== sequence) return;
      const answer = await response.json();
      this.links = answer.links.map((link) => ({ kind: link.kind, from: readEnd(link.from), to: readEnd(link.to) }));
      this.draw();
    } catch {
      // The event's own pane names its causes and effects.
    }
  }

  // --- The window ---

  get model() {
    return this.#model;
  }

  get whole() {
    return this.#whole;
  }

  #rescale() {
    const isBroken = this.#collapses && this.axis === "time" && this.#whole?.gaps.length;
    this.scale = isBroken ? new Scale(this.#whole.gaps, this.#model.extents("time")) : new Scale();
  }

  /** The edges of the window as values of the axis. */
  values() {
    return this.view.map((unit) => this.scale.value(unit));
  }

  sequenceOf(value) {
    return this.axis === "sequence" ? value : this.#model.sequenceAt(value);
  }

  #unitsOf([from, to]) {
    if (this.axis === "sequence") return [from - 0.5, to + 0.5];
    const [start, end] = [this.#model.timeAt(from), this.#model.timeAt(to)].map((value) => this.scale.unit(value));
    const least = Math.max(end - start, NARROWEST.time);
    return [start - least * 0.02, start + least * 1.02];
  }

  /** The window as sequences: what the address and the server speak. */
  window() {
    return this.values().map((value) => this.sequenceOf(value));
  }

  #extents() {
    return this.#model.extents(this.axis).map((value) => this.scale.unit(value));
  }

  #isFull() {
    if (!this.view || !this.#model) return true;
    const [first, last] = this.#extents();
    const slack = (last - first) * 0.03;
    return this.view[0] <= first + slack && this.view[1] >= last - slack;
  }

  setView(from, to, { rest = true } = {}) {
    const [first, last] = this.#extents();
    const size = Math.min(Math.max(to - from, NARROWEST[this.axis]), last - first);
    const middle = (from + to) / 2;
    const start = Math.min(Math.max(middle - size / 2, first), last - size);
    this.view = [start, start + size];
    this.tips.hideAll();
    this.draw();
    if (rest) this.rested();
  }

  rested() {
    this.#refetchSoon();
    this.#toAddressSoon();
  }

  #toAddressSoon() {
    if (!this.#model) return;
    clearTimeout(this.addressTimer);
    this.addressTimer = setTimeout(() => this.#toAddress(), 200);
  }

  #toAddress() {
    const { rows } = this;
    const isFull = this.#isFull();
    const [from, to] = isFull ? [null, null] : this.#eventsInView();
    const told = { isFull, from, to };
    if (JSON.stringify(told) !== this.told) this.dispatchEvent(new CustomEvent("timeline:window", { bubbles: true, detail: told }));
    this.told = JSON.stringify(told);
    setParams({
      from, to,
      axis: this.axis === "time" ? null : this.axis, gaps: this.#collapses ? "fold" : null, follow: this.#following || !this.#model.isOpen ? null : "0",
      folded: rows.isFolded ? "all" : null, fold: [...rows.folded], pin: [...rows.pins], stack: [...rows.stacked], child: [...rows.opened.keys()],
    });
  }

  /** The first and the last event of the window; between two events, those two. */
  #eventsInView() {
    const [from, to] = this.window();
    const [first, last] = [Math.ceil(from), Math.floor(to)];
    return first <= last ? [Math.max(0, first), last] : [Math.max(0, Math.floor(from)), Math.ceil(to)];
  }

  zoom(factor, px = (this.plot + this.width) / 2) {
    if (!this.view) return;
    const [from, to] = this.view;
    const at = this.unitAt(px);
    if (factor < 1) this.follow(false);
    this.setView(at - (at - from) * factor, at + (to - at) * factor);
  }

  pan(share) {
    if (!this.view) return;
    const move = (this.view[1] - this.view[0]) * share;
    this.follow(false);
    this.setView(this.view[0] + move, this.view[1] + move);
  }

  fit() {
    if (!this.view) return;
    this.follow(true);
    this.setView(...this.#extents());
  }

  /** Around the selected event, close enough to tell it from its neighbours; the window before is come back to by `fit`. */
  zoomToSelected() {
    if (this.selected === null || !this.view) return;
    const size = this.axis === "sequence" ? 12 : Math.max(NARROWEST.time * 20, this.#sizeAround(this.selected));
    const at = this.unitOf(this.selected, this.selectedAt);
    this.follow(false);
    this.setView(at - size / 2, at + size / 2);
  }

  /** Some neighbours on the side on which they are nearer. */
  #sizeAround(sequence) {
    const [before, at, after] = [sequence - 3, sequence, sequence + 3].map((one) => this.scale.unit(this.#model.timeAt(one)));
    const sides = [at - before, after - at].filter((size) => size > 0);
    return 2.5 * Math.min(...sides, this.view[1] - this.view[0]);
  }

  toggleAxis() {
    if (!this.view) return;
    const isFull = this.#isFull();
    const window = this.window();
    this.axis = this.axis === "time" ? "sequence" : "time";
    this.#rescale();
    this.view = isFull ? this.#extents() : this.#unitsOf(window);
    this.#reflect();
    this.setView(...this.view);
    this.#fetch(isFull ? null : this.#padded(...window));
  }

  toggleGaps() {
    if (!this.view || this.axis !== "time") return;
    const isFull = this.#isFull();
    const values = this.values();
    this.#collapses = !this.#collapses;
    this.#rescale();
    this.view = isFull ? this.#extents() : values.map((value) => this.scale.unit(value));
    this.#reflect();
    this.setView(...this.view);
  }

  follow(on) {
    if (this.#following === on) return;
    this.#following = on;
    this.#reflect();
    this.#toAddressSoon();
  }

  toggleFollow() {
    this.follow(!this.#following);
    if (!this.#following || !this.view) return;
    const size = this.view[1] - this.view[0];
    const last = this.#extents()[1];
    this.setView(last - size, last);
  }

  get isFollowing() {
    return this.#following && Boolean(this.#model?.isOpen);
  }

  // --- Selecting ---

  /** Shows an event as the selected one; called by the list. */
  select(sequence, at = null) {
    this.selected = sequence;
    this.selectedAt = at;
    if (this.tips.popoverFor !== sequence) this.tips.hidePopover();
    if (sequence !== null) this.reveal(sequence);
    this.#linksSoon();
    this.draw();
  }

  unitOf(sequence, at = null) {
    return this.axis === "sequence" ? sequence : this.scale.unit(at ?? this.#model.eventAt.get(sequence)?.at ?? this.#model.timeAt(sequence));
  }

  /** Moves the window, never its size, until the event is in it. */
  reveal(sequence) {
    if (!this.#model || !this.view) return;
    const at = this.unitOf(sequence, this.selectedAt);
    const [from, to] = this.view;
    if (at >= from && at <= to) return;
    const size = to - from;
    this.follow(false);
    this.setView(at - size / 2, at + size / 2);
  }

  choose(sequence, at) {
    this.selected = sequence;
    this.selectedAt = at ?? null;
    setParams({ seq: sequence });
    this.#linksSoon();
    this.draw();
    this.dispatchEvent(new CustomEvent("timeline:select", { bubbles: true, detail: { sequence, at } }));
  }

  stepWrite(by) {
    // A key may come before the answer does.
    if (!this.#model) return this.addEventListener("timeline:ready", () => this.stepWrite(by), { once: true });
    const { writes } = this.#model;
    const now = this.selected ?? -1;
    const next = by > 0 ? writes.find((write) => write.sequence > now) : writes.findLast((write) => write.sequence < now);
    if (next) {
      this.choose(next.sequence, next.at);
      this.reveal(next.sequence);
      return this.tips.showWrites([next]);
    }
    const buckets = this.#model.writeBuckets;
    const bucket = by > 0 ? buckets.find((one) => one.from > now) : buckets.findLast((one) => one.from < now);
    if (!bucket) return;
    this.choose(bucket.from, bucket.start);
    this.reveal(bucket.from);
  }

  // --- Lanes ---

  #changed({ ask = false } = {}) {
    if (!this.#model) return;
    this.tips.hideAll();
    this.#lay();
    this.draw();
    this.#toAddressSoon();
    if (ask) this.ask();
    else this.#refetchSoon();
  }

  fold(key, on) {
    this.rows.fold(key, on);
    this.#changed();
  }

  foldAll(on = !this.rows.isFolded) {
    this.rows.foldAll(on);
    this.#reflect();
    this.#changed();
  }

  pin(key) {
    toggle(this.rows.pins, key);
    this.#changed({ ask: true });
  }

  stack(key) {
    toggle(this.rows.stacked, key);
    this.#changed();
  }

  showChildren(key) {
    toggle(this.rows.shown, key);
    this.#changed();
  }

  /** A run that a node started is opened in place: its lanes come under its own bar. */
  async openChild(child) {
    if (this.rows.opened.delete(child.run)) return this.#changed();
    try {
      const response = await fetch(`${child.href}/timeline?rows=24&overview=0&width=${Math.round(this.width - this.plot)}`, { headers: { Accept: "application/json" } });
      if (!response.ok) throw new Error(String(response.status));
      this.rows.opened.set(child.run, new Model(await response.json()));
      this.#changed();
    } catch {
      location.assign(child.href);
    }
  }

  #openWanted() {
    for (const child of this.#whole.children) {
      if (this.wanted.delete(child.run) && !this.rows.opened.has(child.run)) this.openChild(child);
    }
  }

  /** The lane that keys act on: the one under the pointer, else the one of the selected event. */
  get currentKey() {
    if (this.hover) return this.hover.key;
    const event = this.#model?.eventAt.get(this.selected);
    if (event) return keyOf(event.node);
    const lane = this.#model?.lanes.find((one) => one.spans.some((span) => span.from <= this.selected && (span.to ?? Infinity) >= this.selected));
    return lane?.key ?? null;
  }

  onCurrent(action) {
    const key = this.currentKey;
    if (key !== null) this[action](key);
    return key !== null;
  }

  // --- Layout and drawing ---

  #lay() {
    this.rows.lay(this.#model, this.#whole);
    this.spacer.style.height = `${this.rows.height + this.rows.pinnedHeight}px`;
    this.dataset.lanes = this.rows.total;
    this.#measure();
  }

  #measure() {
    const width = this.scroller.clientWidth;
    this.width = width;
    this.plot = width < 560 ? 112 : Math.min(270, Math.max(180, Math.round(width * 0.16)));
    this.style.setProperty("--tl-wanted", `${HEAD + FOOT + (this.rows.height || 84) + (this.rows.pinnedHeight || 0)}px`);
    this.height = this.scroller.clientHeight;
    const ratio = devicePixelRatio || 1;
    const [w, h] = [Math.round(width * ratio), Math.round(this.height * ratio)];
    this.ratio = ratio;
    if (this.canvas.width === w && this.canvas.height === h) return;
    this.canvas.width = w;
    this.canvas.height = h;
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${this.height}px`;
    this.draw();
  }

  draw() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = null;
      this.paint();
    });
  }

  paint() {
    if (!this.view || !this.isConnected || !this.width) return;
    if (this.isFollowing) this.#moveAlong();
    this.scene = this.#scene();
    paint(this.context, this.scene);
    // A write to the document costs a layout of all of it, so only when there is something to say.
    const drawn = String(this.scene.rows.length);
    if (this.dataset.drawn !== drawn) this.dataset.drawn = drawn;
  }

  #scene() {
    const model = this.#model, whole = this.#whole;
    const [from, to] = this.view;
    const pixels = this.width - this.plot;
    const unit = pixels / (to - from);
    const [start, end] = this.values();
    const origin = model.run.start ?? model.windowStart ?? start;
    const ticks = this.axis === "sequence" ? sequenceTicks(start, end, pixels)
      : this.scale.gaps.length ? brokenTicks(this.scale, start, end, pixels, origin) : timeTicks(start, end, pixels, origin);
    const extents = this.#extents();
    const mini = (value) => this.plot + ((this.scale.unit(value) - extents[0]) / (extents[1] - extents[0])) * pixels;
    const { rows, pinned } = this.#visibleRows();
    return {
      axis: this.axis, axisName: axisName(this.axis, start), ticks, ratio: this.ratio, width: this.width, height: this.height, plot: this.plot,
      x: (value) => this.plot + (this.scale.unit(value) - from) * unit,
      timeAt: (sequence) => model.timeAt(sequence), sequenceAt: (at) => model.sequenceAt(at),
      binStart: (bin) => this.#onAxis(model, bin), miniX: mini, whole: this.#wholeOnAxis(), miniWindow: [mini(start), mini(end)],
      rows, pinned, pinnedHeight: this.rows.pinnedHeight, hasEvents: Boolean(model.events), isFiltered: this.#isFiltered(),
      marks: model.marks, writes: model.writes, writeBuckets: model.writeBuckets, writesTotal: model.writesTotal, runWrites: model.runWrites,
      gaps: this.axis === "time" ? whole.gaps : [], gapsCollapsed: this.scale.gaps.length > 0, reversals: model.reversals,
      links: [...(model.links.length <= 80 ? model.links : []), ...this.links], pointOf: (event) => this.#pointOf(event, rows, pinned),
      last: model.run.lastSequence ?? 0, now: model.edge(), isOpen: model.isOpen, selected: this.selected, selectedAt: this.selectedAt,
      hover: this.hover, area: this.area, colors: this.#palette(), fonts: this.fonts,
    };
  }

  /** Bins of an answer that was cut by the other axis, until the one that was asked for comes. */
  #onAxis(model, bin) {
    const value = model.binStart(bin);
    if (model.axis === this.axis) return value;
    return this.axis === "time" ? model.timeAt(value) : model.sequenceAt(value);
  }

  #wholeOnAxis() {
    const whole = this.#whole;
    if (whole.axis === this.axis) return whole;
    return { ...whole, binStart: (bin) => this.#onAxis({ axis: whole.axis, binStart: (one) => whole.binStart(one), timeAt: (at) => this.#model.timeAt(at), sequenceAt: (at) => this.#model.sequenceAt(at) }, bin) };
  }

  #visibleRows() {
    let top = HEAD;
    const pinned = this.rows.pinned.map((lane) => {
      const row = this.rows.row(lane, lane.place, top, true);
      top += row.height;
      return row;
    });
    const scrolled = this.scroller.scrollTop;
    return { pinned, rows: this.rows.between(scrolled, scrolled + this.height - top, top) };
  }

  #pointOf(event, rows, pinned) {
    const key = keyOf(event.node);
    const row = pinned.find((one) => one.lane.key === key) ?? rows.find((one) => one.lane?.key === key);
    if (!row) return null;
    return { x: this.plot + (this.unitOf(event.sequence, event.at) - this.view[0]) * ((this.width - this.plot) / (this.view[1] - this.view[0])), y: row.top + (row.isFolded ? FOLDED : ROW) / 2 };
  }

  /** Canvas knows no custom properties, so the tokens are asked of an element that uses them. */
  #palette() {
    if (this.#colors) return this.#colors;
    const probe = part("span", "", this);
    probe.style.transition = "none";
    const read = (token) => {
      probe.style.color = `var(--${token})`;
      return getComputedStyle(probe).color;
    };
    const names = ["surface", "sunk", "line", "ink", "memory", "ok", "wait", "fail", "live"];
    this.#colors = Object.fromEntries(names.map((name) => [name, read(name)]));
    for (const name of ["memory", "ok", "wait", "fail", "live"]) this.#colors[`${name}Soft`] = read(`${name}-soft`);
    Object.assign(this.#colors, { line2: read("line-2"), line3: read("line-3"), ink2: read("ink-2"), ink3: read("ink-3"), ink3Soft: read("sunk") });
    const style = getComputedStyle(this);
    const [sans, mono] = [style.getPropertyValue("--sans"), style.getPropertyValue("--mono")];
    this.fonts = {
      sans: `11px ${sans}`, small: `10.5px ${sans}`, smallBold: `600 11px ${sans}`,
      mono: `11.5px ${mono}`, monoBold: `600 11.5px ${mono}`, tiny: `9px ${mono}`,
    };
    probe.remove();
    return this.#colors;
  }

  /** While a run is open and followed, its right edge stays in view. */
  #moveAlong() {
    const [first, last] = this.#extents();
    const size = this.view[1] - this.view[0];
    this.view = this.view[0] <= first + size * 0.03 ? [first, last] : [last - size, last];
  }

  #keepMoving() {
    if (this.moving || !this.#model?.isOpen) return;
    const step = () => {
      this.moving = null;
      if (!this.isConnected || !this.#model?.isOpen) return;
      if (!document.hidden) this.draw();
      this.moving = setTimeout(step, reducedMotion.matches ? 1000 : 1000 / FRAMES_WHILE_LIVE);
    };
    step();
  }

  // --- What it says ---

  #say(state, text = "", canRetry = false) {
    this.dataset.state = state;
    const words = { loading: "Loading the timeline…", empty: "No event has come that the timeline could draw.", ready: "" }[state] ?? text;
    this.state.replaceChildren();
    this.state.hidden = !words;
    if (!words) return;
    part("span", "", this.state).textContent = words;
    if (!canRetry) return;
    const again = part("button", "btn", this.state);
    again.type = "button";
    again.textContent = "Try again";
    again.addEventListener("click", () => {
      if (!this.view) this.#say("loading");
      this.#fetch(this.view && !this.#isFull() ? this.#padded(...this.window()) : null, { isFirst: !this.view });
    });
  }

  #describe() {
    const model = this.#model;
    this.scroller.setAttribute("aria-label", `Timeline: ${model.summary()}. The event list has the same events.`);
    const place = this.panel?.querySelector("[data-tl-summary]");
    const { run } = model;
    const size = run.start === null ? "" : ` · ${stretch((run.end ?? model.edge()) - run.start)}`;
    const some = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
    const lanes = model.lanesHidden ? `${model.lanesTotal.toLocaleString("en")} of ${some(model.lanesTotal + model.lanesHidden, "lane")} match` : some(model.lanesTotal, "lane");
    if (place) place.textContent = lanes + size;
    this.#reflect();
  }

  get panel() {
    return this.closest(".tl-panel");
  }

  #reflect() {
    const button = (name) => this.panel?.querySelector(`[data-tl="${name}"]`);
    const axis = button("axis");
    if (axis) axis.textContent = this.axis === "time" ? "By time" : "By sequence";
    button("follow")?.setAttribute("aria-pressed", String(this.#following));
    button("fold")?.setAttribute("aria-pressed", String(this.rows.isFolded));
    const gaps = button("gaps");
    if (!gaps) return;
    gaps.hidden = this.axis !== "time" || !this.#whole?.gaps.length;
    gaps.setAttribute("aria-pressed", String(this.#collapses));
  }

  // --- Coordinates ---

  unitAt(px) {
    const [from, to] = this.view;
    return from + ((px - this.plot) / (this.width - this.plot)) * (to - from);
  }

  valueAt(px) {
    return this.scale.value(this.unitAt(px));
  }

  xOf(sequence, at = null) {
    return this.scene.x(this.axis === "sequence" ? sequence : (at ?? this.#model.timeAt(sequence)));
  }

  /** The unit under a point of the minimap. */
  miniUnitAt(px) {
    const [first, last] = this.#extents();
    return first + ((px - this.plot) / (this.width - this.plot)) * (last - first);
  }

  #listen() {
    this.abort = new AbortController();
    const on = (target, name, action, options = {}) => target.addEventListener(name, action, { signal: this.abort.signal, ...options });
    on(this.scroller, "keydown", (event) => this.#key(event));
    on(this.scroller, "scroll", () => (this.tips.hideAll(), this.draw(), this.#refetchSoon()), { passive: true });
    on(document, "theme:change", () => this.#repaint());
    on(document, "zone:change", () => (this.tips.hideAll(), this.draw()));
    on(document.body, "live:run", () => this.#liveSoon());
    on(document, "visibilitychange", () => document.hidden || this.draw());
    on(document, "filter:change", () => this.#filterChanged());
    on(this.panel ?? this, "click", (event) => this.#tool(event.target.closest?.("[data-tl]")?.dataset.tl));
    this.sizes = new ResizeObserver(() => this.#measure());
    this.sizes.observe(this.scroller);
    document.fonts?.ready.then(() => (forgetCuts(), this.#repaint()));
  }

  #repaint() {
    this.#colors = null;
    this.draw();
  }

  /** Besides the page's keys, what one tries first on a thing that has the focus. */
  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !this.view || event.target !== this.scroller) return;
    const action = {
      ArrowLeft: () => this.pan(-0.1),
      ArrowRight: () => this.pan(0.1),
      "+": () => this.zoom(0.7),
      "-": () => this.zoom(1 / 0.7),
      Home: () => this.fit(),
      Enter: () => this.#openSelected(),
    }[event.key];
    if (!action || action() === false) return;
    event.preventDefault();
    event.stopPropagation();
  }

  #openSelected() {
    const write = this.#model.writes.find((one) => one.sequence === this.selected);
    if (!write) return false;
    this.tips.showWrites([write]);
    return true;
  }

  #tool(name) {
    if (name === "axis") this.toggleAxis();
    if (name === "fit") this.fit();
    if (name === "follow") this.toggleFollow();
    if (name === "gaps") this.toggleGaps();
    if (name === "fold") this.foldAll();
    if (name === "in") this.zoom(0.5);
    if (name === "out") this.zoom(2);
  }

  /** For the page's keys; true when there was something to close. */
  escape() {
    return this.tips.hidePopover(true);
  }
}

function toggle(set, key) {
  if (!set.delete(key)) set.add(key);
}

const readEnd = (end) => ({ ...end, at: end.at ? parse(end.at) : null });

customElements.define("open-timeline", OpenTimeline);

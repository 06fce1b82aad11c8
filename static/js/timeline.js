// <open-timeline data-src>: fetches, holds the window, and turns pointer and keys into changes of it.
// What an answer means is in timeline-model.js, ticks in timeline-axis.js, pixels in timeline-paint.js.
//
// Events out: `timeline:select` {sequence, at}, `timeline:node` {node}. In: `select(sequence, at)`, `live:run` on the body.

import { param, setParams } from "./address.js";
import { plain } from "./hidden.js";
import { axisName, sequenceTicks, timeTicks } from "./timeline-axis.js";
import { Model } from "./timeline-model.js";
import { AXIS, FOOT, MEMORY, ROW, WORDS, barBox, paint, rowHeight, spanEdges } from "./timeline-paint.js";
import { absolute, clock, isRelative, parse, since, stretch } from "./times.js";

const REFETCH_AFTER = 160; // ms of rest before a changed window asks for finer data
const LIVE_EVERY = 700; // ms between two questions while a run grows
const FRAMES_WHILE_LIVE = 8; // a second
const NARROWEST = { time: 0.02, sequence: 4 };
const MARGIN = 0.35; // of the window, asked for on either side
const REACH = 9; // px around a mark that still hit it

const reducedMotion = matchMedia("(prefers-reduced-motion: reduce)");

function part(name, className, parent) {
  const element = document.createElement(name);
  element.className = className;
  parent.append(element);
  return element;
}

class OpenTimeline extends HTMLElement {
  #whole = null; // answer for all of the run
  #part = null; // answer for the window, finer
  #axis = param("axis") === "sequence" ? "sequence" : "time";
  #view = null; // [start, end] in units of the axis
  #order = new Map(); // node → place, so that lanes never jump
  #folded = new Set();
  #layout = [];
  #selected = null;
  #selectedAt = null;
  #following = true;
  #asked = null; // the request under way
  #dirty = false;
  #hover = null;
  #drag = null;
  #pointers = new Map();
  #colors = null;

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
    this.cross = part("div", "tl-cross", this);
    this.tip = part("div", "tl-tip", this);
    this.tip.setAttribute("role", "tooltip");
    this.state = part("div", "tl-state", this);
    this.state.setAttribute("role", "status");
    this.cross.hidden = this.tip.hidden = true;
    this.context = this.canvas.getContext("2d", { alpha: false });
    if (this.dataset.seq) {
      this.#selected = Number(this.dataset.seq);
      this.#selectedAt = this.dataset.at ? parse(this.dataset.at) : null;
    }
    // As tall as it is going to be, so that nothing under it moves when the answer comes.
    this.lanesHeight = Number(this.dataset.nodes || 3) * ROW;
    this.#listen();
    this.#measure();
    this.#say("loading");
    const [from, to] = [param("from"), param("to")].map((text) => (text === null || text === "" ? NaN : Number(text)));
    this.#fetch(Number.isFinite(from) && Number.isFinite(to) && from < to ? [from, to] : null, true);
  }

  disconnectedCallback() {
    this.abort?.abort();
    this.sizes?.disconnect();
    clearTimeout(this.liveTimer);
    this.#asked?.abort();
  }

  // --- Asking the server ---

  async #fetch(window, isFirst = false) {
    this.#asked?.abort();
    const asking = (this.#asked = new AbortController());
    const url = new URL(this.dataset.src, location.href);
    if (window) {
      url.searchParams.set("from", Math.floor(window[0]));
      url.searchParams.set("to", Math.ceil(window[1]));
    }
    url.searchParams.set("width", Math.max(200, Math.round(this.width - this.plot)));
    try {
      const response = await fetch(url, { signal: asking.signal, headers: { Accept: "application/json" } });
      if (!response.ok) throw new Error(`The server answered with an error (${response.status}).`);
      if (response.redirected) return location.reload();
      this.#take(new Model(await response.json()), window, isFirst);
    } catch (error) {
      if (error.name !== "AbortError") this.#failed(error);
    } finally {
      if (this.#asked === asking) this.#asked = null;
      this.toggleAttribute("data-busy", Boolean(this.#asked));
    }
  }

  #take(model, window, isFirst) {
    const wasFull = this.#isFull();
    if (model.isWhole) {
      this.#whole = model;
      if (!window) this.#part = null;
    } else this.#part = model;
    for (const lane of model.lanes) if (!this.#order.has(lane.node)) this.#order.set(lane.node, this.#order.size);
    if (isFirst || !this.#view) this.#view = window && isFirst ? this.#unitsOf(window) : this.#extents();
    else if (wasFull && this.#following) this.#view = this.#extents();
    this.#lay();
    this.#say(model.lanes.length || model.writesTotal || model.marks.length ? "ready" : "empty");
    this.#describe();
    this.draw();
    this.#keepMoving();
    if (this.#dirty) this.#liveSoon();
    this.dispatchEvent(new CustomEvent("timeline:ready", { bubbles: true }));
  }

  #failed(error) {
    if (this.#whole || this.#part) this.#say("stale", "The timeline could not be brought up to date.", true);
    else this.#say("failed", error instanceof TypeError ? "The server did not answer." : error.message, true);
  }

  /** Finer data for the window, once it rests; the whole run again when the window left what we have. */
  #refetchSoon() {
    clearTimeout(this.refetchTimer);
    this.refetchTimer = setTimeout(() => {
      const model = this.#model();
      if (!model) return;
      const [from, to] = this.#window();
      const isCovered = model.isWhole || (from >= model.from - 1 && to <= model.to + 1);
      const isCoarse = model.isDense && to - from < (model.to - model.from) / 2;
      if (this.#isFull() ? !this.#whole : !isCovered || isCoarse) this.#fetch(this.#isFull() ? null : this.#padded(from, to));
    }, REFETCH_AFTER);
  }

  #padded(from, to) {
    const { firstSequence, lastSequence } = this.#model().run;
    const margin = (to - from) * MARGIN;
    return [Math.max(firstSequence ?? 0, from - margin), Math.min(lastSequence ?? to, to + margin)];
  }

  #liveSoon() {
    this.#dirty = true;
    if (this.liveTimer || this.#asked) return;
    this.liveTimer = setTimeout(() => {
      this.liveTimer = null;
      this.#dirty = false;
      const full = this.#isFull() || !this.#view;
      const model = this.#model();
      this.#fetch(full || (model?.isWhole && !model.isDense) ? null : this.#padded(...this.#window()));
    }, LIVE_EVERY);
  }

  // --- The window ---

  /** The finer answer where it covers the window, else the whole. */
  #model() {
    if (!this.#part || !this.#view) return this.#whole ?? this.#part;
    const [from, to] = this.#view.map((value) => this.#sequenceOf(value, this.#part));
    const covers = from >= this.#part.from - 1 && to <= this.#part.to + 1 && this.#view[0] < this.#view[1];
    return covers && !this.#isFull() ? this.#part : (this.#whole ?? this.#part);
  }

  #sequenceOf(value, model) {
    return this.#axis === "sequence" ? value : model.sequenceAt(value);
  }

  #unitsOf([from, to], axis = this.#axis) {
    const model = this.#part ?? this.#whole;
    if (axis === "sequence") return [from - 0.5, to + 0.5];
    const [start, end] = [model.timeAt(from), model.timeAt(to)];
    const least = Math.max(end - start, NARROWEST.time);
    return [start - least * 0.02, start + least * 1.02];
  }

  /** The window as sequences: what the address and the server speak. */
  #window() {
    const model = this.#model();
    return this.#view.map((value) => this.#sequenceOf(value, model));
  }

  #extents() {
    return (this.#whole ?? this.#part).extents(this.#axis);
  }

  #isFull() {
    if (!this.#view) return true;
    const [first, last] = this.#extents();
    const slack = (last - first) * 0.03;
    return this.#view[0] <= first + slack && this.#view[1] >= last - slack;
  }

  #setView(from, to, { rest = true } = {}) {
    const [first, last] = this.#extents();
    const size = Math.min(Math.max(to - from, NARROWEST[this.#axis]), last - first);
    const middle = (from + to) / 2;
    const start = Math.min(Math.max(middle - size / 2, first), last - size);
    this.#view = [start, start + size];
    this.#hidePopover();
    this.#hideTip();
    this.draw();
    if (rest) this.#rested();
  }

  #rested() {
    this.#refetchSoon();
    clearTimeout(this.addressTimer);
    this.addressTimer = setTimeout(() => this.#toAddress(), 200);
  }

  #toAddress() {
    if (this.#isFull()) return setParams({ from: null, to: null, axis: this.#axis === "time" ? null : this.#axis });
    const [from, to] = this.#window();
    setParams({ from: Math.max(0, Math.floor(from)), to: Math.ceil(to), axis: this.#axis === "time" ? null : this.#axis });
  }

  zoom(factor, px = (this.plot + this.width) / 2) {
    if (!this.#view) return;
    const [from, to] = this.#view;
    const at = this.#valueAt(px);
    if (factor < 1) this.#follow(false);
    this.#setView(at - (at - from) * factor, at + (to - at) * factor);
  }

  pan(share) {
    if (!this.#view) return;
    const move = (this.#view[1] - this.#view[0]) * share;
    this.#follow(false);
    this.#setView(this.#view[0] + move, this.#view[1] + move);
  }

  fit() {
    if (!this.#view) return;
    this.#follow(true);
    this.#setView(...this.#extents());
  }

  toggleAxis() {
    if (!this.#view) return;
    const isFull = this.#isFull();
    const window = this.#window();
    this.#axis = this.#axis === "time" ? "sequence" : "time";
    this.#view = isFull ? this.#extents() : this.#unitsOf(window);
    this.#reflect();
    this.#setView(...this.#view);
  }

  #follow(on) {
    if (this.#following === on) return;
    this.#following = on;
    this.#reflect();
  }

  toggleFollow() {
    this.#follow(!this.#following);
    if (this.#following && this.#view) {
      const size = this.#view[1] - this.#view[0];
      const last = this.#extents()[1];
      this.#setView(last - size, last);
    }
  }

  get isFollowing() {
    return this.#following && Boolean(this.#model()?.isOpen);
  }

  // --- Selecting ---

  /** Shows an event as the selected one; called by the list. */
  select(sequence, at = null) {
    this.#selected = sequence;
    this.#selectedAt = at;
    if (this.#popoverFor !== sequence) this.#hidePopover();
    if (sequence !== null) this.reveal(sequence);
    this.draw();
  }

  /** Moves the window, never its size, until the event is in it. */
  reveal(sequence) {
    const model = this.#model();
    if (!model || !this.#view) return;
    const at = this.#axis === "sequence" ? sequence : (this.#selectedAt ?? model.timeAt(sequence));
    const [from, to] = this.#view;
    if (at >= from && at <= to) return;
    const size = to - from;
    this.#follow(false);
    this.#setView(at - size / 2, at + size / 2);
  }

  #choose(sequence, at) {
    this.#selected = sequence;
    this.#selectedAt = at ?? null;
    setParams({ seq: sequence });
    this.draw();
    this.dispatchEvent(new CustomEvent("timeline:select", { bubbles: true, detail: { sequence, at } }));
  }

  stepWrite(by) {
    const writes = this.#model()?.writes ?? [];
    if (!writes.length) return;
    const now = this.#selected ?? -1;
    const next = by > 0 ? writes.find((write) => write.sequence > now) : writes.findLast((write) => write.sequence < now);
    if (!next) return;
    this.#choose(next.sequence, next.at);
    this.reveal(next.sequence);
    this.#showPopover(next);
  }

  fold(node, on = !this.#folded.has(node)) {
    if (on) this.#folded.add(node);
    else this.#folded.delete(node);
    this.#lay();
    this.draw();
  }

  foldAll(on) {
    for (const node of this.#order.keys()) {
      if (on) this.#folded.add(node);
      else this.#folded.delete(node);
    }
    this.#lay();
    this.draw();
  }

  set filter(node) {
    this.filterNode = node;
    this.draw();
  }

  // --- Layout ---

  /** Rows of all lanes known, in the order they were first seen, with their place down the page. */
  #lay() {
    const model = this.#model();
    const known = new Map();
    for (const one of [this.#whole, this.#part]) for (const lane of one?.lanes ?? []) known.set(lane.node, Math.max(known.get(lane.node) ?? 1, lane.levels));
    const lanes = new Map(model?.lanes.map((lane) => [lane.node, lane]));
    const before = new Map(this.#layout.map((row) => [row.node, row]));
    let top = 0;
    this.#layout = [...this.#order.keys()].filter((node) => known.has(node)).map((node) => {
      const isFolded = this.#folded.has(node);
      const levels = known.get(node);
      const lane = lanes.get(node) ?? { node, status: "unknown", attempts: 0, spans: [], buckets: [], most: 1 };
      const { label, labelRoom, labelFont } = before.get(node) ?? {};
      const row = { node, lane, levels, isFolded, offset: top, height: rowHeight(levels, isFolded), label, labelRoom, labelFont };
      top += row.height;
      return row;
    });
    this.lanesHeight = top;
    this.laidFor = model;
    this.spacer.style.height = `${top}px`;
    this.dataset.lanes = this.#layout.length;
    this.#measure();
  }

  #measure() {
    const width = this.scroller.clientWidth;
    this.width = width;
    this.plot = width < 560 ? 118 : Math.min(260, Math.max(176, Math.round(width * 0.15)));
    const wanted = AXIS + MEMORY + FOOT + (this.lanesHeight ?? 84);
    this.style.setProperty("--tl-wanted", `${wanted}px`);
    this.height = this.scroller.clientHeight;
    const ratio = devicePixelRatio || 1;
    const [w, h] = [Math.round(width * ratio), Math.round(this.height * ratio)];
    if (this.canvas.width !== w || this.canvas.height !== h) {
      this.canvas.width = w;
      this.canvas.height = h;
      this.canvas.style.width = `${width}px`;
      this.canvas.style.height = `${this.height}px`;
      this.draw();
    }
    this.ratio = ratio;
  }

  #visibleRows() {
    const scrolled = this.scroller.scrollTop;
    const bottom = scrolled + this.height - AXIS - MEMORY;
    let low = 0, high = this.#layout.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#layout[middle].offset + this.#layout[middle].height <= scrolled) low = middle + 1;
      else high = middle;
    }
    const rows = [];
    for (let i = low; i < this.#layout.length && this.#layout[i].offset < bottom; i++) {
      this.#layout[i].top = AXIS + MEMORY + this.#layout[i].offset - scrolled;
      rows.push(this.#layout[i]);
    }
    return rows;
  }

  // --- Drawing ---

  draw() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = null;
      this.#paint();
    });
  }

  #paint() {
    if (!this.#view || !this.isConnected || !this.width) return;
    const model = this.#model();
    if (this.laidFor !== model) this.#lay();
    if (this.isFollowing) this.#moveAlong();
    this.scene = this.#scene(model);
    paint(this.context, this.scene);
    // A write to the document costs a layout of all of it, so only when there is something to say.
    const drawn = String(this.scene.rows.length);
    if (this.dataset.drawn !== drawn) this.dataset.drawn = drawn;
  }

  #scene(model) {
    const [from, to] = this.#view;
    const pixels = this.width - this.plot;
    const scale = pixels / (to - from);
    const start = model.run.start ?? model.windowStart ?? from;
    const ticks = this.#axis === "sequence" ? sequenceTicks(from, to, pixels) : timeTicks(from, to, pixels, start);
    return {
      axis: this.#axis, axisName: axisName(this.#axis, from), ticks, ratio: this.ratio,
      width: this.width, height: this.height, plot: this.plot, view: this.#view, extents: this.#extents(),
      x: (value) => this.plot + (value - from) * scale,
      timeAt: (sequence) => model.timeAt(sequence),
      rows: this.#visibleRows(), marks: model.marks, writes: model.writes, writeBuckets: model.writeBuckets,
      writesTotal: model.writesTotal, last: model.run.lastSequence ?? 0, now: model.edge(), isOpen: model.isOpen,
      selected: this.#selected, selectedAt: this.#selectedAt, filter: this.filterNode, hover: this.#hover,
      area: this.#drag?.kind === "area" ? [this.#drag.from, this.#drag.to].sort((a, b) => a - b) : null,
      colors: this.#palette(), fonts: this.fonts,
    };
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
    Object.assign(this.#colors, { line2: read("line-2"), ink2: read("ink-2"), ink3: read("ink-3"), ink3Soft: read("sunk") });
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
    const last = this.#extents()[1];
    const size = this.#view[1] - this.#view[0];
    const [first] = this.#extents();
    if (this.#view[0] <= first + size * 0.03) this.#view = this.#extents();
    else this.#view = [last - size, last];
  }

  #keepMoving() {
    if (this.moving || !this.#model()?.isOpen) return;
    const step = () => {
      this.moving = null;
      if (!this.isConnected || !this.#model()?.isOpen) return;
      if (!document.hidden) this.draw();
      this.moving = setTimeout(step, reducedMotion.matches ? 1000 : 1000 / FRAMES_WHILE_LIVE);
    };
    step();
  }

  // --- What it says ---

  #say(state, text = "", canRetry = false) {
    this.dataset.state = state;
    const words = {
      loading: "Loading the timeline…",
      empty: "No event has come that the timeline could draw. The list below has what there is.",
      ready: "",
    }[state] ?? text;
    this.state.replaceChildren();
    this.state.hidden = !words;
    if (!words) return;
    part("span", "", this.state).textContent = words;
    if (!canRetry) return;
    const again = part("button", "btn", this.state);
    again.type = "button";
    again.textContent = "Try again";
    again.addEventListener("click", () => {
      if (!this.#view) this.#say("loading");
      this.#fetch(this.#view && !this.#isFull() ? this.#padded(...this.#window()) : null, !this.#view);
    });
  }

  #describe() {
    const model = this.#model();
    this.scroller.setAttribute("aria-label", `Timeline: ${model.summary()}. The event list has the same events.`);
    const place = this.panel?.querySelector("[data-tl-summary]");
    if (!place) return;
    const { run } = model;
    const size = run.start === null ? "" : ` · ${stretch((run.end ?? model.edge()) - run.start)}`;
    const shown = this.#layout.length < model.lanesTotal ? `${this.#layout.length.toLocaleString("en")} of ${model.lanesTotal.toLocaleString("en")} nodes` : `${model.lanesTotal.toLocaleString("en")} node${model.lanesTotal === 1 ? "" : "s"}`;
    place.textContent = shown + size;
    this.#reflect();
  }

  get panel() {
    return this.closest(".tl-panel");
  }

  #reflect() {
    const button = (name) => this.panel?.querySelector(`[data-tl="${name}"]`);
    const axis = button("axis");
    if (axis) axis.textContent = this.#axis === "time" ? "By time" : "By sequence";
    button("follow")?.setAttribute("aria-pressed", String(this.#following));
  }

  // --- What is under the pointer ---

  #valueAt(px) {
    const [from, to] = this.#view;
    return from + ((px - this.plot) / (this.width - this.plot)) * (to - from);
  }

  #hit(x, y) {
    const { scene } = this;
    if (!scene || x < 0 || y < 0) return null;
    if (y >= AXIS && y < AXIS + MEMORY) return this.#hitMemory(x);
    if (y < AXIS) return this.#hitMark(x);
    const row = scene.rows.find((one) => y >= one.top && y < one.top + one.height);
    if (!row) return null;
    if (x < this.plot) return { kind: "gutter", row, node: row.node, isGutter: true };
    return this.#hitSpan(row, x, y) ?? { kind: "row", row, node: row.node };
  }

  #hitMemory(x) {
    if (x < this.plot) return null;
    const middle = (write) => this.scene.x(this.#axis === "sequence" ? write.sequence : write.at);
    let best = null, nearest = REACH;
    for (const write of this.scene.writes) {
      const distance = Math.abs(middle(write) - x);
      if (distance < nearest) [best, nearest] = [write, distance];
    }
    if (best) return { kind: "write", write: best };
    const edge = (bucket, end) => this.scene.x(this.#axis === "sequence" ? bucket[end ? "to" : "from"] : bucket[end ? "end" : "start"]);
    const bucket = this.scene.writeBuckets.find((one) => x >= edge(one) - 2 && x <= edge(one, true) + 2);
    return bucket ? { kind: "bucket", bucket, of: "memory write" } : null;
  }

  #hitMark(x) {
    const mark = this.scene.marks.find((one) => Math.abs(this.scene.x(this.#axis === "sequence" ? one.sequence : one.at) - x) < REACH);
    return mark ? { kind: "mark", mark } : null;
  }

  #hitSpan(row, x, y) {
    let found = null;
    for (const span of row.lane.spans) {
      const [left, right] = spanEdges(this.scene, span);
      if (x < left - 2 || x > right + 2) continue;
      const [top, height] = barBox(row, span.level);
      if (row.levels > 1 && !row.isFolded && (y < top - 1 || y > top + height + 1)) continue;
      found = { kind: "span", span, row, node: row.node, left, right };
    }
    if (found) return found;
    const at = this.#valueAt(x);
    const slack = (this.#view[1] - this.#view[0]) / (this.width - this.plot) * 2;
    const seq = this.#axis === "sequence";
    const bucket = row.lane.buckets.find((one) => at >= (seq ? one.from : one.start) - slack && at <= (seq ? one.to : one.end) + slack);
    return bucket ? { kind: "bucket", bucket, row, node: row.node, of: "event" } : null;
  }

  // --- Tip and popover ---

  #moment(at, sequence) {
    if (at === null || at === undefined) return `#${sequence}`;
    const { run } = this.#model();
    return isRelative() && run.start !== null ? `${since(at - run.start)} (${absolute(at)})` : absolute(at);
  }

  #tipLines(hit) {
    if (hit.kind === "span") return this.#spanLines(hit);
    if (hit.kind === "write") return [`◆ ${plain(hit.write.memoryId ?? "entry not named")}`, `written by ${hit.write.node ? plain(hit.write.node) : "no named node"} at #${hit.write.sequence}`, this.#moment(hit.write.at)];
    if (hit.kind === "mark") return [plain(hit.mark.type), `#${hit.mark.sequence}`, this.#moment(hit.mark.at)];
    if (hit.kind === "bucket") return [...(hit.node ? [plain(hit.node)] : []), `${hit.bucket.count.toLocaleString("en")} ${hit.of}${hit.bucket.count === 1 ? "" : "s"}, #${hit.bucket.from} to #${hit.bucket.to}${hit.bucket.worst ? `, worst: ${WORDS[hit.bucket.worst] ?? hit.bucket.worst}` : ""}`, this.#moment(hit.bucket.start), "zoom in to see each"];
    if (hit.kind === "gutter") return [plain(hit.node), `${(hit.row.lane.events ?? 0).toLocaleString("en")} events in ${(hit.row.lane.attempts ?? 0).toLocaleString("en")} attempt${hit.row.lane.attempts === 1 ? "" : "s"}, ${WORDS[hit.row.lane.status] ?? "unknown"}`, "click: only this node · arrow: fold the lane"];
    return null;
  }

  #spanLines({ span, node }) {
    const model = this.#model();
    const took = span.start === null ? "" : stretch((span.end ?? model.edge()) - span.start);
    const lines = [
      plain(node),
      `attempt ${span.attempt} ${WORDS[span.status] ?? span.status}${span.label ? `: ${plain(span.label)}` : ""} · ${took}${span.end === null ? " so far" : ""}`,
      `#${span.from} to ${span.end === null ? "now" : `#${span.to}`}`,
      this.#moment(span.start, span.from),
    ];
    if (!span.startSeen) lines.push("its start event has not come; it began earlier");
    for (const wait of span.waits) lines.push(`${wait.end === null ? "waits" : "waited"} for ${plain(wait.kind)}${wait.start === null ? "" : ` ${stretch((wait.end ?? model.edge()) - wait.start)}`}`);
    return lines;
  }

  #showTip(x, y, hit) {
    const lines = hit && !this.#drag && this.#tipLines(hit);
    this.tip.hidden = !lines;
    if (!lines) return;
    this.tip.replaceChildren(...lines.map((text, index) => {
      const line = document.createElement(index ? "span" : "strong");
      line.textContent = text;
      line.dir = "auto";
      return line;
    }));
    this.tip.classList.toggle("is-memory", hit.kind === "write");
    const left = Math.min(x + 14, this.clientWidth - this.tip.offsetWidth - 8);
    const below = y + 18 + this.tip.offsetHeight < this.clientHeight + 60;
    this.tip.style.transform = `translate(${Math.max(4, left)}px, ${below ? y + 18 : y - this.tip.offsetHeight - 10}px)`;
  }

  #showCross(x, y) {
    const shown = x >= this.plot && y > 0 && this.#view;
    this.cross.hidden = !shown;
    if (!shown) return;
    const value = this.#valueAt(x);
    const { run } = this.#model();
    this.cross.style.transform = `translateX(${x}px)`;
    this.cross.classList.toggle("is-left", x > this.width - 120);
    this.cross.dataset.at = this.#axis === "sequence" ? `#${Math.round(value).toLocaleString("en")}` : isRelative() && run.start !== null ? since(value - run.start) : clock(value);
  }

  get #popoverFor() {
    return this.popover_?.sequence ?? null;
  }

  /** The entry behind a memory mark: where it is, who wrote it, and the way there. */
  #showPopover(write) {
    this.#hidePopover();
    if (!this.scene) this.#paint(); // a key may come before the first frame
    if (!this.scene) return;
    const box = part("div", "tl-pop", this);
    box.setAttribute("role", "dialog");
    box.setAttribute("aria-label", `Memory write #${write.sequence}`);
    const title = part(write.href ? "a" : "span", "mem mono", box);
    if (write.href) title.href = write.href;
    title.title = plain(write.memoryId ?? "");
    title.textContent = `◆ ${plain(write.memoryId ?? "entry not named")}`;
    const facts = part("p", "dim", box);
    facts.dir = "auto";
    facts.textContent = `in ${plain(write.memoryRef ?? "no named ref")}, by ${write.node ? plain(write.node) : "no named node"}${write.agent ? ` as ${plain(write.agent)}` : ""}`;
    part("p", "faint", box).textContent = `#${write.sequence} · ${this.#moment(write.at, write.sequence)}`;
    const go = part(write.href ? "a" : "button", "btn", box);
    if (write.href) go.href = write.href;
    else go.addEventListener("click", () => this.#hidePopover(true));
    go.textContent = write.href ? "Go to the entry" : "Close";
    this.popover_ = { box, sequence: write.sequence, before: document.activeElement };
    const x = this.scene.x(this.#axis === "sequence" ? write.sequence : write.at);
    box.style.transform = `translate(${Math.max(8, Math.min(x - 24, this.clientWidth - box.offsetWidth - 8))}px, ${AXIS + MEMORY + 4}px)`;
    go.focus({ preventScroll: true });
    box.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      this.#hidePopover(true);
    });
  }

  #hidePopover(restore = false) {
    if (!this.popover_) return false;
    const { box, before } = this.popover_;
    this.popover_ = null;
    box.remove();
    if (restore) (before?.isConnected ? before : this.scroller).focus({ preventScroll: true });
    return true;
  }

  // --- Pointer, wheel, touch ---

  #listen() {
    this.abort = new AbortController();
    const on = (target, name, action, options = {}) => target.addEventListener(name, action, { signal: this.abort.signal, ...options });
    on(this.canvas, "pointerdown", (event) => this.#down(event));
    on(this.canvas, "pointermove", (event) => this.#move(event));
    on(this.canvas, "pointerup", (event) => this.#up(event));
    on(this.canvas, "pointercancel", (event) => this.#cancel(event));
    on(this.canvas, "pointerleave", () => this.#leave());
    on(this.canvas, "dblclick", (event) => event.offsetX >= this.plot && this.zoom(0.4, event.offsetX));
    on(this.scroller, "wheel", (event) => this.#wheel(event), { passive: false });
    on(this.scroller, "keydown", (event) => this.#key(event));
    on(this.scroller, "scroll", () => (this.#hidePopover(), this.draw()), { passive: true });
    on(document, "theme:change", () => this.#repaint());
    on(document, "zone:change", () => (this.#hideTip(), this.draw()));
    on(document.body, "live:run", () => this.#liveSoon());
    on(document, "visibilitychange", () => document.hidden || this.draw());
    on(document, "pointerdown", (event) => this.popover_ && !this.popover_.box.contains(event.target) && event.target !== this.canvas && this.#hidePopover());
    on(this.panel ?? this, "click", (event) => this.#tool(event.target.closest?.("[data-tl]")?.dataset.tl));
    this.sizes = new ResizeObserver(() => this.#measure());
    this.sizes.observe(this.scroller);
    document.fonts?.ready.then(() => {
      for (const row of this.#layout) row.label = null;
      this.#repaint();
    });
  }

  #repaint() {
    this.#colors = null;
    this.draw();
  }

  /** Besides the page's keys, what one tries first on a thing that has the focus. */
  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !this.#view) return;
    const action = {
      ArrowLeft: () => this.pan(-0.1),
      ArrowRight: () => this.pan(0.1),
      "+": () => this.zoom(0.7),
      "-": () => this.zoom(1 / 0.7),
      Enter: () => this.#openSelected(),
    }[event.key];
    if (!action || action() === false) return;
    event.preventDefault();
    event.stopPropagation();
  }

  #openSelected() {
    const write = this.#model().writes.find((one) => one.sequence === this.#selected);
    if (!write) return false;
    this.#showPopover(write);
    return true;
  }

  #tool(name) {
    if (name === "axis") this.toggleAxis();
    if (name === "fit") this.fit();
    if (name === "follow") this.toggleFollow();
  }

  #down(event) {
    if (!this.#view || event.button > 1) return;
    this.scroller.focus({ preventScroll: true });
    this.#pointers.set(event.pointerId, event.offsetX);
    this.canvas.setPointerCapture(event.pointerId);
    const { offsetX: x, offsetY: y } = event;
    if (this.#pointers.size === 2) this.#drag = { kind: "pinch", gap: this.#gap(), view: this.#view };
    else if (x >= this.plot) {
      const pans = event.shiftKey || event.button === 1 || event.pointerType === "touch";
      this.#drag = { kind: pans ? "pan" : "area", from: x, to: x, y, view: this.#view, moved: false };
    } else this.#drag = { kind: "gutter", from: x, y, moved: false };
    if (event.button === 1) event.preventDefault();
  }

  #gap() {
    const [a, b] = [...this.#pointers.values()];
    return { size: Math.max(8, Math.abs(a - b)), middle: (a + b) / 2 };
  }

  #move(event) {
    const { offsetX: x, offsetY: y } = event;
    if (this.#pointers.has(event.pointerId)) this.#pointers.set(event.pointerId, x);
    if (this.#drag) return this.#dragTo(x, y);
    if (!this.#view) return;
    const hit = this.#hit(x, y);
    const hovered = hit?.isGutter ? hit : null;
    if (hovered?.node !== this.#hover?.node) {
      this.#hover = hovered;
      this.draw();
    }
    this.canvas.style.cursor = !hit || hit.kind === "row" || hit.kind === "bucket" ? (x >= this.plot ? "crosshair" : "default") : "pointer";
    if (event.pointerType !== "touch") {
      this.#showTip(x, y, hit);
      this.#showCross(x, y);
    }
  }

  #dragTo(x, y) {
    const drag = this.#drag;
    this.tip.hidden = true;
    if (drag.kind === "pinch") return this.#pinch(drag);
    if (Math.abs(x - drag.from) > 3 || Math.abs(y - drag.y) > 6) drag.moved = true;
    if (!drag.moved) return;
    if (drag.kind === "area") {
      drag.to = Math.min(Math.max(x, this.plot), this.width);
      this.draw();
    } else if (drag.kind === "pan") {
      const move = ((drag.from - x) / (this.width - this.plot)) * (drag.view[1] - drag.view[0]);
      this.#follow(false);
      this.#setView(drag.view[0] + move, drag.view[1] + move, { rest: false });
    }
  }

  #pinch(drag) {
    const gap = this.#gap();
    const factor = drag.gap.size / gap.size;
    const share = (drag.gap.middle - this.plot) / (this.width - this.plot);
    const [from, to] = drag.view;
    const at = from + share * (to - from);
    this.#follow(false);
    this.#setView(at - (at - from) * factor, at + (to - at) * factor, { rest: false });
  }

  #up(event) {
    this.#pointers.delete(event.pointerId);
    const drag = this.#drag;
    this.#drag = null;
    if (!drag) return;
    if (!drag.moved && drag.kind !== "pinch") this.#click(event.offsetX, event.offsetY);
    else if (drag.kind === "area" && Math.abs(drag.to - drag.from) > 4) {
      const [left, right] = [drag.from, drag.to].sort((a, b) => a - b);
      this.#follow(false);
      this.#setView(this.#valueAt(left), this.#valueAt(right));
    } else this.#rested();
    this.draw();
  }

  #cancel(event) {
    this.#pointers.delete(event.pointerId);
    this.#drag = null;
    this.draw();
  }

  /** What they say holds only until the next change of the window. */
  #hideTip() {
    this.tip.hidden = this.cross.hidden = true;
  }

  #leave() {
    this.#hideTip();
    if (this.#hover) {
      this.#hover = null;
      this.draw();
    }
  }

  #click(x, y) {
    this.#hidePopover();
    this.tip.hidden = true;
    const hit = this.#hit(x, y);
    if (!hit) return;
    if (hit.kind === "write") {
      this.#choose(hit.write.sequence, hit.write.at);
      this.#showPopover(hit.write);
    } else if (hit.kind === "mark") this.#choose(hit.mark.sequence, hit.mark.at);
    else if (hit.kind === "span") this.#clickSpan(hit, x);
    else if (hit.kind === "bucket") this.#clickBucket(hit.bucket);
    else if (hit.kind === "gutter" && x < 20) this.fold(hit.node);
    else if (hit.kind === "gutter") this.dispatchEvent(new CustomEvent("timeline:node", { bubbles: true, detail: { node: hit.node } }));
  }

  /** The nearer end of the span: its first or its last event, or a wait's. */
  #clickSpan({ span, left, right }, x) {
    const ends = [{ sequence: span.from, at: span.start, x: left }];
    if (span.end !== null) ends.push({ sequence: span.to, at: span.end, x: right });
    for (const wait of span.waits) {
      ends.push({ sequence: wait.from, at: wait.start, x: this.scene.x(this.#axis === "sequence" ? wait.from : wait.start) });
    }
    ends.sort((a, b) => Math.abs(a.x - x) - Math.abs(b.x - x));
    this.#choose(ends[0].sequence, ends[0].at);
  }

  #clickBucket(bucket) {
    this.#choose(bucket.from, bucket.start);
    const seq = this.#axis === "sequence";
    const [from, to] = seq ? [bucket.from, bucket.to] : [bucket.start, bucket.end];
    const size = Math.max(to - from, (this.#view[1] - this.#view[0]) / 40);
    this.#follow(false);
    this.#setView((from + to) / 2 - size * 2, (from + to) / 2 + size * 2);
  }

  /** With Ctrl or ⌘ always, without once the timeline has the focus: a page that is scrolled past keeps scrolling. */
  #wheel(event) {
    if (!this.#view) return;
    const x = event.clientX - this.canvas.getBoundingClientRect().left;
    const isSideways = Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey;
    const hasFocus = this.contains(document.activeElement);
    if (x < this.plot && !event.ctrlKey && !event.metaKey) return;
    if (isSideways) {
      event.preventDefault();
      return this.pan((event.deltaX || event.deltaY) / (this.width - this.plot));
    }
    if (!event.ctrlKey && !event.metaKey && !hasFocus) return;
    event.preventDefault();
    const lines = event.deltaMode === 1 ? event.deltaY * 16 : event.deltaY;
    this.zoom(Math.exp(Math.max(-60, Math.min(60, lines)) * 0.006), Math.max(x, this.plot));
  }

  /** For the page's keys; true when there was something to close. */
  escape() {
    return this.#hidePopover(true);
  }

  get selected() {
    return this.#selected;
  }
}

customElements.define("open-timeline", OpenTimeline);

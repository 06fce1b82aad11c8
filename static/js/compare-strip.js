// <open-compare data-src data-pairs data-at>: both runs as two lanes over one axis, the pairs of their events, so that
// they are locked together; under them both as a whole in small, with the marks of what differs.
//
// Events out: `compare:select` {place}. In: `select(place)`, `zoom`, `pan`, `fit`.

const LANE = 26;
const GAP = 16; // between the lanes: what differs
const TOP = 18; // the axis
const MINI = 22;
const LEFT = 22; // the letters of the lanes
const HEIGHT = TOP + LANE * 2 + GAP + 12 + MINI;
const LEAST = 8; // pairs; nearer makes no sense
const REST = 140; // ms of rest before a changed window asks for finer data
const NAMES = ["ink", "ink-2", "ink-3", "line", "line-2", "line-3", "surface", "sunk", "memory", "ok", "wait", "wait-soft", "fail", "fail-soft", "live", "live-soft"];
const [START, END, SAME, CHANGED, REMOVED, ADDED, A, B] = [0, 1, 2, 3, 4, 5, 6, 7];

const pretty = (number) => number.toLocaleString("en");

class OpenCompare extends HTMLElement {
  #whole = null;
  #part = null;
  #view = null; // [start, end) in pairs
  #at = null;
  #asking = null;
  #drag = null;

  connectedCallback() {
    if (this.canvas) return;
    this.pairs = Number(this.dataset.pairs);
    this.#at = this.dataset.at ? Number(this.dataset.at) : null;
    this.tabIndex = 0;
    this.setAttribute("role", "group");
    this.setAttribute("aria-label", this.dataset.label ?? "");
    this.canvas = document.createElement("canvas");
    this.canvas.setAttribute("aria-hidden", "true");
    this.state = document.createElement("p");
    this.state.className = "strip-state";
    this.state.setAttribute("role", "status");
    this.replaceChildren(this.canvas, this.state);
    this.context = this.canvas.getContext("2d", { alpha: false });
    this.abort = new AbortController();
    const on = (target, name, action, options = {}) => target.addEventListener(name, action, { signal: this.abort.signal, ...options });
    on(this.canvas, "pointerdown", (event) => this.#down(event));
    on(this.canvas, "pointermove", (event) => this.#move(event));
    on(this.canvas, "pointerup", (event) => this.#up(event));
    on(this.canvas, "pointercancel", () => (this.#drag = null));
    on(this.canvas, "wheel", (event) => this.#wheel(event), { passive: false });
    on(document, "theme:change", () => ((this.colors = null), this.draw()));
    this.sizes = new ResizeObserver(() => this.#measure());
    this.sizes.observe(this);
    this.#view = [0, this.pairs];
    this.#measure();
    this.#fetch();
  }

  disconnectedCallback() {
    this.abort?.abort();
    this.sizes?.disconnect();
    this.#asking?.abort();
    clearTimeout(this.rest);
  }

  // --- Asking the server ---

  async #fetch() {
    if (!this.pairs) return this.#say("Neither run has an event that is compared.");
    this.#asking?.abort();
    const asking = (this.#asking = new AbortController());
    const [from, to] = this.#isFull ? [0, this.pairs] : [Math.max(0, Math.floor(this.#view[0])), Math.min(this.pairs, Math.ceil(this.#view[1]))];
    const url = new URL(this.dataset.src, location.href);
    url.searchParams.set("from", from);
    url.searchParams.set("to", to);
    url.searchParams.set("width", Math.max(100, Math.round(this.width - LEFT)));
    try {
      const response = await fetch(url, { signal: asking.signal, headers: { Accept: "application/json" } });
      if (!response.ok) throw new Error(`The server answered with an error (${response.status}).`);
      if (response.redirected) return location.reload();
      const told = await response.json();
      if (from === 0 && to === this.pairs) this.#whole = told;
      this.#part = told;
      this.#say("");
      this.draw();
    } catch (error) {
      if (error.name !== "AbortError") this.#say(error instanceof TypeError ? "The server did not answer." : error.message);
    } finally {
      if (this.#asking === asking) this.#asking = null;
    }
  }

  #say(words) {
    this.state.textContent = words;
    this.dataset.state = words ? "failed" : "ready";
  }

  /** The next difference that way; null when there is none, or when nobody answers. */
  async walk(way) {
    const url = new URL(this.dataset.src, location.href);
    url.searchParams.set("walk", way);
    if (this.#at !== null) url.searchParams.set("at", this.#at);
    try {
      const response = await fetch(url, { headers: { Accept: "application/json" } });
      if (!response.ok) throw new Error(`The server answered with an error (${response.status}).`);
      return (await response.json()).place;
    } catch (error) {
      this.#say(error instanceof TypeError ? "The server did not answer." : error.message);
      return null;
    }
  }

  // --- The window ---

  get #isFull() {
    return this.#view[0] <= 0 && this.#view[1] >= this.pairs;
  }

  #setView(start, end) {
    const size = Math.min(Math.max(end - start, Math.min(LEAST, this.pairs)), this.pairs);
    const from = Math.min(Math.max((start + end - size) / 2, 0), this.pairs - size);
    this.#view = [from, from + size];
    this.draw();
    clearTimeout(this.rest);
    this.rest = setTimeout(() => this.#fetch(), REST);
  }

  zoom(factor, x = LEFT + (this.width - LEFT) / 2) {
    const [from, to] = this.#view;
    const at = this.#placeAt(x);
    this.#setView(at - (at - from) * factor, at + (to - at) * factor);
  }

  pan(share) {
    const move = (this.#view[1] - this.#view[0]) * share;
    const [from, to] = this.#view;
    const kept = Math.min(Math.max(move, -from), this.pairs - to);
    this.#setView(from + kept, to + kept);
  }

  fit() {
    this.#setView(0, this.pairs);
  }

  select(place) {
    this.#at = place;
    const [from, to] = this.#view;
    if (place !== null && (place < from || place >= to)) this.#setView(place - (to - from) / 2, place + (to - from) / 2);
    else this.draw();
  }

  get selected() {
    return this.#at;
  }

  #placeAt(x) {
    const [from, to] = this.#view;
    return from + ((x - LEFT) / (this.width - LEFT)) * (to - from);
  }

  // --- Pointer ---

  #down(event) {
    this.canvas.setPointerCapture(event.pointerId);
    this.#drag = { x: event.offsetX, mini: event.offsetY > HEIGHT - MINI, view: [...this.#view], moved: false };
    if (this.#drag.mini) this.#centre(event.offsetX);
  }

  #move(event) {
    const drag = this.#drag;
    if (!drag) return;
    if (Math.abs(event.offsetX - drag.x) > 4) drag.moved = true;
    if (drag.mini) return this.#centre(event.offsetX);
    if (!drag.moved) return;
    const size = drag.view[1] - drag.view[0];
    const move = ((drag.x - event.offsetX) / (this.width - LEFT)) * size;
    const kept = Math.min(Math.max(move, -drag.view[0]), this.pairs - drag.view[1]);
    this.#setView(drag.view[0] + kept, drag.view[1] + kept);
  }

  #up(event) {
    const drag = this.#drag;
    this.#drag = null;
    if (drag && !drag.moved && !drag.mini) this.#choose(event.offsetX);
  }

  #centre(x) {
    const at = ((x - LEFT) / (this.width - LEFT)) * this.pairs;
    const half = (this.#view[1] - this.#view[0]) / 2;
    this.#setView(at - half, at + half);
  }

  /** The pair under the pointer; in a bucket of many, the first that differs. */
  async #choose(x) {
    const at = Math.floor(this.#placeAt(x));
    if (at < 0 || at >= this.pairs) return;
    const bucket = this.#part?.buckets.find((one) => at >= one[START] && at < one[END]);
    let place = at;
    if (bucket && bucket[END] - bucket[START] > 1) {
      place = bucket[START];
      if (bucket[CHANGED] + bucket[REMOVED] + bucket[ADDED]) {
        const before = this.#at;
        this.#at = place - 1;
        place = (await this.walk("next")) ?? place;
        this.#at = before;
      }
    }
    this.select(place);
    this.dispatchEvent(new CustomEvent("compare:select", { bubbles: true, detail: { place } }));
  }

  #wheel(event) {
    if (!event.ctrlKey && Math.abs(event.deltaX) <= Math.abs(event.deltaY)) return;
    event.preventDefault();
    if (event.ctrlKey) this.zoom(event.deltaY > 0 ? 1.25 : 0.8, event.offsetX);
    else this.pan(event.deltaX / this.width);
  }

  // --- Drawing ---

  #measure() {
    this.width = Math.max(200, this.clientWidth);
    const ratio = Math.min(3, devicePixelRatio || 1);
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = Math.round(HEIGHT * ratio);
    this.canvas.style.width = `${this.width}px`;
    this.canvas.style.height = `${HEIGHT}px`;
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.draw();
  }

  draw() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = null;
      this.#paint();
    });
  }

  #palette() {
    if (this.colors) return this.colors;
    const probe = document.createElement("span");
    this.append(probe);
    const style = getComputedStyle(probe);
    this.colors = {};
    for (const name of NAMES) {
      probe.style.color = `var(--${name})`;
      this.colors[name] = style.color;
    }
    this.font = `11px ${getComputedStyle(this).fontFamily}`;
    probe.remove();
    return this.colors;
  }

  #paint() {
    const ctx = this.context, c = this.#palette();
    ctx.fillStyle = c.surface;
    ctx.fillRect(0, 0, this.width, HEIGHT);
    ctx.font = this.font;
    ctx.textBaseline = "middle";
    const laneA = TOP, laneB = TOP + LANE + GAP;
    ctx.fillStyle = c["ink-3"];
    ctx.fillText("A", 6, laneA + LANE / 2);
    ctx.fillText("B", 6, laneB + LANE / 2);
    ctx.fillStyle = c.sunk;
    ctx.fillRect(LEFT, laneA, this.width - LEFT, LANE);
    ctx.fillRect(LEFT, laneB, this.width - LEFT, LANE);
    if (!this.#part) return;
    const [from, to] = this.#view;
    const x = (place) => LEFT + ((place - from) / (to - from)) * (this.width - LEFT);
    for (const bucket of this.#part.buckets) this.#paintBucket(ctx, c, bucket, x, laneA, laneB);
    this.#paintAxis(ctx, c, x);
    for (const [place, side, kind] of this.#part.marks) {
      if (place < from || place > to) continue;
      const y = (side === "a" ? laneA : laneB) + LANE / 2;
      this.#paintMark(ctx, c, (x(place) + x(place + 1)) / 2, y, kind);
    }
    if (this.#at !== null) {
      const left = x(this.#at), right = Math.max(x(this.#at + 1), left + 2);
      ctx.strokeStyle = c.live;
      ctx.lineWidth = 1.5;
      ctx.strokeRect(left - 1, laneA - 2, right - left + 2, LANE * 2 + GAP + 4);
    }
    this.#paintMini(ctx, c);
    this.dataset.drawn = "";
  }

  #paintBucket(ctx, c, bucket, x, laneA, laneB) {
    const left = x(bucket[START]), width = Math.max(1, x(bucket[END]) - left - (x(bucket[END]) - left > 4 ? 1 : 0));
    if (left > this.width || left + width < LEFT) return;
    const inA = bucket[SAME] + bucket[CHANGED] + bucket[REMOVED], inB = bucket[SAME] + bucket[CHANGED] + bucket[ADDED];
    const count = bucket[END] - bucket[START];
    const fill = (share, y, color) => {
      if (!share) return;
      const height = Math.max(4, (LANE - 6) * share);
      ctx.fillStyle = color;
      ctx.fillRect(left, y + (LANE - height) / 2, width, height);
    };
    fill(inA / count, laneA, c["line-2"]);
    fill(inB / count, laneB, c["line-2"]);
    fill(bucket[REMOVED] / count, laneA, c.fail);
    fill(bucket[ADDED] / count, laneB, c.live);
    if (!bucket[CHANGED]) return;
    ctx.fillStyle = c.wait;
    const height = Math.max(4, GAP * (bucket[CHANGED] / count));
    ctx.fillRect(left, laneA + LANE + (GAP - height) / 2, width, height);
  }

  #paintMark(ctx, c, x, y, kind) {
    if (x < LEFT - 6 || x > this.width + 6) return;
    ctx.lineWidth = 1.5;
    ctx.beginPath();
    if (kind === "memory") {
      ctx.moveTo(x, y - 6);
      ctx.lineTo(x + 6, y);
      ctx.lineTo(x, y + 6);
      ctx.lineTo(x - 6, y);
      ctx.closePath();
      ctx.fillStyle = c.memory;
      ctx.strokeStyle = c.surface;
      ctx.fill();
    } else {
      ctx.moveTo(x - 4, y - 4);
      ctx.lineTo(x + 4, y + 4);
      ctx.moveTo(x + 4, y - 4);
      ctx.lineTo(x - 4, y + 4);
      ctx.strokeStyle = c.fail;
    }
    ctx.stroke();
  }

  /** Sequences of both runs where there is room for them. */
  #paintAxis(ctx, c, x) {
    ctx.fillStyle = c["ink-3"];
    let free = LEFT;
    for (const bucket of this.#part.buckets) {
      const left = x(bucket[START]);
      if (left < free || left > this.width - 60) continue;
      const label = [bucket[A], bucket[B]].map((one) => (one === null ? "–" : `#${pretty(one)}`)).join(" | ");
      ctx.fillText(label, left, TOP / 2);
      ctx.fillRect(left, TOP - 4, 1, 4);
      free = left + ctx.measureText(label).width + 28;
    }
  }

  #paintMini(ctx, c) {
    const top = HEIGHT - MINI, width = this.width - LEFT;
    ctx.fillStyle = c.sunk;
    ctx.fillRect(LEFT, top, width, MINI);
    for (const bucket of (this.#whole ?? this.#part).buckets) {
      const left = LEFT + (bucket[START] / this.pairs) * width;
      const wide = Math.max(1, ((bucket[END] - bucket[START]) / this.pairs) * width);
      let y = top + 2;
      for (const [count, color] of [[bucket[REMOVED], c.fail], [bucket[CHANGED], c.wait], [bucket[ADDED], c.live]]) {
        if (count) {
          ctx.fillStyle = color;
          ctx.fillRect(left, y, wide, 5);
        }
        y += 6;
      }
    }
    if (this.#isFull) return;
    const [from, to] = this.#view;
    ctx.strokeStyle = c["ink-2"];
    ctx.lineWidth = 1;
    ctx.strokeRect(LEFT + (from / this.pairs) * width + 0.5, top + 0.5, Math.max(4, ((to - from) / this.pairs) * width) - 1, MINI - 1);
  }
}

customElements.define("open-compare", OpenCompare);

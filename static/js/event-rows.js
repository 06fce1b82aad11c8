// The rows of a list of any length: only those in view are in the document. The server gives any stretch of the list by
// its place, so a place far down costs no more than the first one.

const PAGE = 60;
const OVERSCAN = 12;
const MOST_PAGES = 40; // kept; the rest can be had again
const TALLEST = 12_000_000; // px; beyond what every browser can scroll, places are scaled to it

export class EventRows {
  #pages = new Map(); // number of a page → rows
  #asked = new Map(); // number of a page → promise
  #stale = new Set();
  #shown = "";
  #rowHeight = 28;

  /** `query(changes)` makes the address of a stretch; `onShown(rows)` hears of what is in the document now. */
  constructor(scroller, { query, onShown }) {
    this.scroller = scroller;
    this.query = query;
    this.onShown = onShown;
    this.body = scroller.querySelector("tbody");
    for (const row of this.body.querySelectorAll("tr.more")) row.remove();
    this.#take(this.body);
    this.#rowHeight = this.body.querySelector("tr[data-seq]")?.offsetHeight || 28;
    this.above = this.#spacer();
    this.below = this.#spacer();
    scroller.addEventListener("scroll", () => this.#soon(), { passive: true });
    this.sizes = new ResizeObserver(() => this.#measure());
    this.sizes.observe(scroller);
    const first = this.first;
    this.#place(first);
    this.scroller.scrollTop = this.#topOf(first);
    this.render();
  }

  #spacer() {
    const row = document.createElement("tr");
    row.className = "spacer";
    row.setAttribute("aria-hidden", "true");
    row.insertCell().colSpan = 5;
    return row;
  }

  /** Rows of an answer go to the pages that they are whole parts of; the counts are the newest ones. */
  #take(body) {
    const { first, matching, stored, last } = body.dataset;
    this.first = Number(first);
    this.total = Number(matching);
    this.stored = Number(stored);
    this.last = Number(last || -1);
    const rows = [...body.querySelectorAll("tr[data-seq]")];
    rows.forEach((row, index) => {
      const place = this.first + index;
      row.setAttribute("aria-rowindex", place + 2);
      row.dataset.place = place;
      const number = Math.floor(place / PAGE);
      if (!this.#pages.has(number)) this.#pages.set(number, []);
      this.#pages.get(number)[place % PAGE] = row;
    });
    return rows;
  }

  get height() {
    return this.total * this.#rowHeight;
  }

  get #room() {
    return Math.min(this.height, TALLEST);
  }

  /** How far down the list is, in px of an unscaled one. */
  get #offset() {
    const { scrollTop, clientHeight } = this.scroller;
    if (this.height <= TALLEST) return scrollTop;
    return (scrollTop / Math.max(1, TALLEST - clientHeight)) * (this.height - clientHeight);
  }

  #topOf(place) {
    const offset = place * this.#rowHeight;
    const { clientHeight } = this.scroller;
    return this.height <= TALLEST ? offset : (offset / (this.height - clientHeight)) * (TALLEST - clientHeight);
  }

  get isAtEnd() {
    const { scrollTop, clientHeight, scrollHeight } = this.scroller;
    return scrollTop + clientHeight > scrollHeight - 2 * this.#rowHeight;
  }

  #measure() {
    const height = this.body.querySelector("tr[data-seq]")?.offsetHeight;
    if (height && Math.abs(height - this.#rowHeight) > 0.5) {
      const place = Math.floor(this.#offset / this.#rowHeight);
      this.#rowHeight = height;
      this.#shown = "";
      this.render();
      this.scroller.scrollTop = this.#topOf(place);
    }
    this.render();
  }

  #soon() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      this.render();
    });
  }

  #range() {
    const offset = this.#offset;
    const first = Math.max(0, Math.floor(offset / this.#rowHeight) - OVERSCAN);
    const count = Math.ceil(this.scroller.clientHeight / this.#rowHeight) + 2 * OVERSCAN;
    return [first, Math.min(this.total, first + Math.max(count, 2 * OVERSCAN))];
  }

  #rowAt(place) {
    return this.#pages.get(Math.floor(place / PAGE))?.[place % PAGE] ?? null;
  }

  render() {
    const [first, end] = this.#range();
    for (let number = Math.floor(first / PAGE); number * PAGE < end; number++) this.#want(number);
    const rows = [];
    for (let place = first; place < end; place++) rows.push(this.#rowAt(place) ?? this.#pending(place));
    const shown = `${first} ${end} ${this.total} ${rows.filter((row) => row.dataset.seq).map((row) => row.dataset.seq).join()}`;
    if (shown === this.#shown) return;
    this.#shown = shown;
    this.#place(first, end, rows);
    this.scroller.querySelector("table").setAttribute("aria-rowcount", this.total + 1);
    this.onShown(rows.filter((row) => row.dataset.seq), { first, end });
  }

  #place(first, end = first, rows = null) {
    const above = this.height <= TALLEST ? first * this.#rowHeight : Math.max(0, this.scroller.scrollTop - (this.#offset - first * this.#rowHeight));
    const own = (end - first) * this.#rowHeight;
    this.above.cells[0].style.height = `${above}px`;
    this.below.cells[0].style.height = `${Math.max(0, this.#room - above - own)}px`;
    this.above.hidden = above === 0;
    if (!rows) return;
    const focused = document.activeElement;
    this.body.replaceChildren(this.above, ...rows, this.below);
    if (focused?.isConnected && focused !== document.activeElement) focused.focus({ preventScroll: true });
  }

  #pending(place) {
    const row = document.createElement("tr");
    row.className = "pending";
    row.setAttribute("aria-rowindex", place + 2);
    row.insertCell().colSpan = 5;
    return row;
  }

  #isWhole(number) {
    const rows = this.#pages.get(number);
    if (!rows) return false;
    const wanted = Math.min(PAGE, this.total - number * PAGE);
    for (let at = 0; at < wanted; at++) if (!rows[at]) return false;
    return true;
  }

  #want(number) {
    if ((this.#isWhole(number) && !this.#stale.has(number)) || this.#asked.has(number)) return;
    this.ask(number);
  }

  /** Asks for a page of the list as it is now. */
  ask(number) {
    this.#stale.delete(number);
    const asked = this.#get({ at: number * PAGE, n: PAGE }).then((body) => {
      this.#asked.delete(number);
      if (!body) return;
      this.#pages.delete(number);
      this.#take(body);
      this.#forget(number);
      this.render();
    });
    this.#asked.set(number, asked);
    return asked;
  }

  #forget(near) {
    const numbers = [...this.#pages.keys()];
    if (numbers.length <= MOST_PAGES) return;
    numbers.sort((a, b) => Math.abs(b - near) - Math.abs(a - near));
    for (const number of numbers.slice(0, numbers.length - MOST_PAGES)) this.#pages.delete(number);
  }

  async #get(changes) {
    try {
      const response = await fetch(this.query(changes), { headers: { "HX-Request": "true", "HX-Target": "listed" } });
      if (!response.ok || response.redirected) throw new Error(String(response.status));
      const template = document.createElement("template");
      template.innerHTML = await response.text();
      this.scroller.classList.remove("is-stale");
      return template.content.querySelector("tbody");
    } catch {
      this.scroller.classList.add("is-stale");
      return null;
    }
  }

  /** What is in view is asked again, all else when it comes into view. Resolves when the rows are those of the log. */
  async refresh() {
    const wasAtEnd = this.isAtEnd;
    const [first, end] = this.#range();
    for (const number of this.#pages.keys()) this.#stale.add(number);
    const before = this.last;
    const numbers = [];
    for (let number = Math.floor(first / PAGE); number * PAGE < Math.max(end, 1); number++) numbers.push(number);
    await Promise.all(numbers.map((number) => this.ask(number)));
    for (const row of this.body.querySelectorAll("tr[data-seq]")) if (before >= 0 && Number(row.dataset.seq) > before) row.classList.add("is-new");
    return wasAtEnd;
  }

  toEnd() {
    this.scroller.scrollTop = this.#room;
    this.render();
  }

  /** The place of a sequence, and of nothing else when it is not in the list. */
  async find(sequence) {
    for (const [number, rows] of this.#pages) {
      if (this.#stale.has(number)) continue;
      const at = rows.findIndex((row) => row && Number(row.dataset.seq) === sequence);
      if (at >= 0) return number * PAGE + at;
    }
    const body = await this.#get({ seq: sequence, n: PAGE });
    if (!body) return null;
    const rows = this.#take(body);
    const at = rows.findIndex((row) => Number(row.dataset.seq) === sequence);
    return at < 0 ? null : this.first + at;
  }

  /** Scrolls no more than it takes to have a place in view. */
  reveal(place) {
    const offset = place * this.#rowHeight;
    const head = this.scroller.querySelector("thead")?.offsetHeight ?? 0;
    const room = this.scroller.clientHeight - head;
    const now = this.#offset;
    if (offset < now + this.#rowHeight) this.scroller.scrollTop = this.#topOf(Math.max(0, place - 2));
    else if (offset > now + room - 2 * this.#rowHeight) this.scroller.scrollTop = this.#topOf(place - Math.max(0, Math.floor(room / this.#rowHeight) - 3));
    this.render();
  }

  async rowAt(place) {
    if (place < 0 || place >= this.total) return null;
    const number = Math.floor(place / PAGE);
    if (!this.#rowAt(place)) await (this.#asked.get(number) ?? this.ask(number));
    return this.#rowAt(place);
  }

  disconnect() {
    this.sizes.disconnect();
  }
}

// What the timeline says about a point: a tip beside the pointer, a cross with its moment, and the popover of memory
// writes with the way to their entries.

import { plain } from "./hidden.js";
import { HEAD, WORDS, childStatus } from "./timeline-paint.js";
import { absolute, clock, isRelative, since, stretch } from "./times.js";

const MOST_FANNED = 12;

const some = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;

function part(name, className, parent) {
  const element = document.createElement(name);
  element.className = className;
  parent.append(element);
  return element;
}

export class Tips {
  constructor(timeline) {
    this.timeline = timeline;
    this.cross = part("div", "tl-cross", timeline);
    this.tip = part("div", "tl-tip", timeline);
    this.tip.setAttribute("role", "tooltip");
    this.popover = null;
    this.hide();
  }

  /** What they say holds only until the next change of the window. */
  hide() {
    this.tip.hidden = this.cross.hidden = true;
  }

  hideAll() {
    this.hide();
    this.hidePopover();
  }

  #moment(at, sequence) {
    if (at === null || at === undefined) return `#${sequence}`;
    const { run } = this.timeline.model;
    return isRelative() && run.start !== null ? `${since(at - run.start)} (${absolute(at)})` : absolute(at);
  }

  #lines(hit) {
    const say = {
      span: () => this.#spanLines(hit),
      event: () => this.#eventLines(hit.event),
      write: () => this.#writeLines(hit),
      writes: () => [`◆ ${some(hit.bucket.count, "memory write")}`, `#${hit.bucket.from} to #${hit.bucket.to}`, this.#moment(hit.bucket.start), "click: go closer"],
      mark: () => [plain(hit.mark.type), `#${hit.mark.sequence}`, this.#moment(hit.mark.at)],
      reversal: () => ["Time runs backwards", `#${hit.reversal.sequence} was reported ${stretch(hit.reversal.by)} before the event in front of it`, this.#moment(hit.reversal.at), "shown as reported, ordered by sequence"],
      gap: () => [`${stretch(hit.gap.end - hit.gap.start)} without an event`, `between #${hit.gap.from} and #${hit.gap.to}`, "click or i: collapse idle gaps"],
      cell: () => this.#cellLines(hit),
      child: () => [plain(hit.child.workflow ?? hit.child.run), `run ${plain(hit.child.run)}, ${WORDS[childStatus(hit.child)] ?? hit.child.status}`, some(hit.child.events, "event"), "click the arrow or its bar: open it here · its name: go there"],
      gutter: () => this.#laneLines(hit),
    }[hit.kind];
    return say?.() ?? null;
  }

  #writeLines({ write, fan }) {
    const lines = [`◆ ${plain(write.memoryId ?? "entry not named")}`, `written by ${write.node ? plain(write.node) : "no named node"} at #${write.sequence}`, this.#moment(write.at)];
    if (fan.length > 1) lines.push(`and ${some(fan.length - 1, "more write")} in this place: click to see each`);
    return lines;
  }

  #eventLines(event) {
    const lines = [`${event.kind === "memory" ? "◆ " : ""}${plain(event.type)}`, `#${event.sequence}${event.node ? ` · ${plain(event.node)}` : ""}`, this.#moment(event.at)];
    if (event.detail) lines.splice(1, 0, plain(event.detail));
    return lines;
  }

  #laneLines({ lane, row }) {
    const name = lane.node === null ? "The run itself" : plain(lane.node);
    const events = lane.hits === undefined ? some(lane.events, "event") : `${lane.hits.toLocaleString("en")} of ${some(lane.events, "event")} match`;
    const lines = [name, `${events}${lane.attempts ? ` in ${some(lane.attempts, "attempt")}` : ""}, ${WORDS[lane.status] ?? "unknown"}`];
    if (row.hidden) lines.push(`${some(row.hidden, "sub-workflow run")} not shown: click the number`);
    lines.push(`${lane.node === null ? "" : "click: only this node · "}arrow or u: fold · p: pin${lane.attempts > 1 ? " · e: stack attempts" : ""}`);
    return lines;
  }

  #cellLines({ cell, bar, lane }) {
    const lines = [lane.node === null ? "The run itself" : plain(lane.node)];
    if (cell) lines.push(`${some(cell.count, "event")} from #${cell.first}${cell.worst ? `, worst: ${WORDS[cell.worst] ?? cell.worst}` : ""}`);
    if (bar) lines.push(`${WORDS[bar.status] ?? bar.status} #${bar.from} to ${bar.to === null ? "now" : `#${bar.to}`} · ${stretch((bar.end ?? this.timeline.model.edge()) - bar.start)}`);
    if (cell?.count > 1) lines.push("click: go closer");
    return lines;
  }

  #spanLines({ span, lane }) {
    const { model } = this.timeline;
    const took = span.start === null ? "" : stretch((span.end ?? model.edge()) - span.start);
    const lines = [
      plain(lane.node ?? ""),
      `attempt ${span.attempt} ${WORDS[span.status] ?? span.status}${span.label ? `: ${plain(span.label)}` : ""} · ${took}${span.end === null ? " so far" : ""}`,
      `#${span.from} to ${span.end === null ? "now" : `#${span.to}`}`,
      this.#moment(span.start, span.from),
    ];
    if (!span.startSeen) lines.push("its start event has not come; it began earlier");
    for (const wait of span.waits) lines.push(`${wait.end === null ? "waits" : "waited"} for ${plain(wait.kind)}${wait.start === null ? "" : ` ${stretch((wait.end ?? model.edge()) - wait.start)}`}`);
    return lines;
  }

  showTip(x, y, hit) {
    const lines = hit && this.#lines(hit);
    this.tip.hidden = !lines;
    if (!lines) return;
    this.tip.replaceChildren(...lines.map((text, index) => {
      const line = document.createElement(index ? "span" : "strong");
      line.textContent = text;
      line.dir = "auto";
      return line;
    }));
    this.tip.classList.toggle("is-memory", hit.kind === "write" || hit.kind === "writes" || hit.event?.kind === "memory");
    const { clientWidth, clientHeight } = this.timeline;
    const left = Math.min(x + 14, clientWidth - this.tip.offsetWidth - 8);
    const below = y + 18 + this.tip.offsetHeight < clientHeight + 60;
    this.tip.style.transform = `translate(${Math.max(4, left)}px, ${below ? y + 18 : y - this.tip.offsetHeight - 10}px)`;
  }

  /** Near an event it stands on the event and names it. */
  showCross(x, y, event) {
    const { timeline } = this;
    this.cross.hidden = x < timeline.plot || !timeline.view;
    if (this.cross.hidden) return;
    const at = event ? timeline.xOf(event.sequence, event.at) : x;
    const value = event ? (timeline.axis === "sequence" ? event.sequence : event.at) : timeline.valueAt(x);
    const { run } = timeline.model;
    const said = timeline.axis === "sequence" ? `#${Math.round(value).toLocaleString("en")}` : isRelative() && run.start !== null ? since(value - run.start) : clock(value);
    this.cross.style.transform = `translateX(${at}px)`;
    this.cross.classList.toggle("is-left", at > timeline.width - 160);
    this.cross.dataset.at = event && timeline.axis !== "sequence" ? `#${event.sequence} · ${said}` : said;
  }

  get popoverFor() {
    return this.popover?.sequence ?? null;
  }

  /** The entries behind a memory mark: where they are, who wrote them, and the way there. */
  showWrites(writes) {
    this.hidePopover();
    const { timeline } = this;
    if (!timeline.scene) timeline.paint(); // a key may come before the first frame
    if (!timeline.scene) return;
    const box = part("div", "tl-pop", timeline);
    box.setAttribute("role", "dialog");
    const [first] = writes;
    box.setAttribute("aria-label", writes.length > 1 ? `${writes.length} memory writes from #${first.sequence}` : `Memory write #${first.sequence}`);
    if (writes.length > 1) this.#fan(box, writes);
    else this.#entry(box, first);
    this.popover = { box, sequence: first.sequence, before: document.activeElement };
    const x = timeline.xOf(first.sequence, first.at);
    box.style.transform = `translate(${Math.max(8, Math.min(x - 24, timeline.clientWidth - box.offsetWidth - 8))}px, ${HEAD + 4}px)`;
    box.querySelector("a.btn, button, a")?.focus({ preventScroll: true });
    box.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      this.hidePopover(true);
    });
  }

  #entry(box, write) {
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
    else go.addEventListener("click", () => this.hidePopover(true));
    go.textContent = write.href ? "Go to the entry" : "Close";
  }

  /** Several writes in one pixel, fanned out. */
  #fan(box, writes) {
    part("p", "dim", box).textContent = `${some(writes.length, "write")} in one place`;
    const list = part("ul", "tl-fan", box);
    for (const write of writes.slice(0, MOST_FANNED)) {
      const item = part("li", "", list);
      const choose = part("button", "btn quiet", item);
      choose.type = "button";
      choose.textContent = `#${write.sequence}`;
      choose.title = this.#moment(write.at, write.sequence);
      choose.addEventListener("click", () => (this.timeline.choose(write.sequence, write.at), this.showWrites([write])));
      const entry = part(write.href ? "a" : "span", "mem mono", item);
      if (write.href) entry.href = write.href;
      entry.textContent = plain(write.memoryId ?? "entry not named");
      const by = part("span", "faint", item);
      by.dir = "auto";
      by.textContent = `by ${write.node ? plain(write.node) : "no named node"}`;
    }
    if (writes.length > MOST_FANNED) part("p", "faint", box).textContent = `and ${some(writes.length - MOST_FANNED, "more write")}: zoom in to see each`;
  }

  closeOutside(target) {
    if (this.popover && !this.popover.box.contains(target)) this.hidePopover();
  }

  hidePopover(restore = false) {
    if (!this.popover) return false;
    const { box, before } = this.popover;
    this.popover = null;
    box.remove();
    if (restore) (before?.isConnected ? before : this.timeline.scroller).focus({ preventScroll: true });
    return true;
  }
}

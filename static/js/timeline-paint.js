// Draws the timeline. Gets everything it needs in one `scene` and keeps nothing but measured text.

import { plain } from "./hidden.js";
import { stretch } from "./times.js";

export const MINI = 26; // height of the whole run in small
export const AXIS = MINI + 24; // down to the end of the axis
export const MEMORY = 28; // height of the memory lane under it
export const HEAD = AXIS + MEMORY; // what never scrolls
export const FOOT = 18; // room for the tag of the selected event
export const ROW = 28;
export const FOLDED = 14;
export const CHILD = 22; // a run that a node started, and each of its lanes
const BAR = 16;
const STACKED = 12;
const LEAST = 3; // px; a span is never thinner
const NARROW = 14; // px; under it a span has plain corners and no words
const MARK = 7; // px from the middle of a memory mark to its corners

const HUES = { ok: "ok", fail: "fail", wait: "wait", live: "live", cancelled: "ink3", interrupted: "ink3", unknown: "ink3" };
export const WORDS = { ok: "completed", fail: "failed", wait: "waiting", live: "running", cancelled: "cancelled", interrupted: "interrupted", unknown: "unknown" };
const WORST = { fail: 6, interrupted: 5, cancelled: 4, wait: 3, live: 2, unknown: 1, ok: 0 };
const widths = new Map();

/** Asking a context for its font is slow, so what it was set to is kept beside it. */
function setFont(ctx, font) {
  if (ctx.fontSet === font) return;
  ctx.font = ctx.fontSet = font;
}

/** Undoes `ctx.save()`, which undoes the font too. */
function restore(ctx) {
  ctx.restore();
  ctx.fontSet = null;
}

function widthOf(ctx, text) {
  const key = ctx.fontSet + text;
  let width = widths.get(key);
  if (width === undefined) {
    if (widths.size > 20_000) widths.clear();
    widths.set(key, (width = ctx.measureText(text).width));
  }
  return width;
}

/** Text cut in its middle until it fits. */
export function fit(ctx, text, room) {
  if (widthOf(ctx, text) <= room) return text;
  const chars = [...text];
  let low = 0, high = chars.length - 1;
  const cut = (kept) => {
    const head = Math.ceil(kept * 0.6);
    return `${chars.slice(0, head).join("")}…${chars.slice(chars.length - (kept - head)).join("")}`;
  };
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (ctx.measureText(cut(middle)).width <= room) low = middle;
    else high = middle - 1;
  }
  return low > 1 ? cut(low) : "…";
}

/** The outlines the pages use for the same statuses, around a middle. */
export function drawShape(ctx, status, x, y, size = 4) {
  ctx.beginPath();
  ctx.lineWidth = 1.5;
  ctx.setLineDash(status === "unknown" ? [1.8, 1.4] : []);
  if (status === "ok") {
    ctx.moveTo(x - size, y + 0.3);
    ctx.lineTo(x - size * 0.25, y + size * 0.8);
    ctx.lineTo(x + size, y - size * 0.75);
  } else if (status === "fail") {
    const s = size * 0.85;
    ctx.moveTo(x - s, y - s);
    ctx.lineTo(x + s, y + s);
    ctx.moveTo(x + s, y - s);
    ctx.lineTo(x - s, y + s);
  } else {
    ctx.arc(x, y, status === "live" ? size : size * 0.9, 0, Math.PI * 2);
    if (status === "cancelled" || status === "interrupted") {
      ctx.moveTo(x - size * 0.6, y + size * 0.6);
      ctx.lineTo(x + size * 0.6, y - size * 0.6);
    }
  }
  if (status === "live") ctx.fill();
  else ctx.stroke();
  ctx.setLineDash([]);
  if (status === "wait") {
    ctx.beginPath();
    ctx.arc(x, y, size * 0.9, -Math.PI / 2, Math.PI / 2);
    ctx.fill();
  }
}

function diamond(ctx, x, y, size) {
  ctx.beginPath();
  ctx.moveTo(x, y - size);
  ctx.lineTo(x + size, y);
  ctx.lineTo(x, y + size);
  ctx.lineTo(x - size, y);
  ctx.closePath();
}

function box(ctx, x, y, width, height, radius = 2) {
  ctx.beginPath();
  ctx.roundRect(x, y, width, height, Math.min(radius, width / 2));
}

function ink(ctx, color) {
  ctx.fillStyle = color;
  ctx.strokeStyle = color;
}

/** `x` of the middle of an event or the edges of a span, in px from the left of the canvas. */
export const place = (scene, sequence, at) => scene.x(scene.axis === "sequence" ? (sequence ?? scene.sequenceAt(at)) : (at ?? scene.timeAt(sequence)));

export function spanEdges(scene, span) {
  const left = place(scene, span.from, span.start);
  const right = span.end === null ? place(scene, Math.max(span.to ?? 0, scene.last), scene.now) : place(scene, span.to, span.end);
  return [left, Math.max(right, left + LEAST)];
}

export function barBox(row, level) {
  if (row.isFolded) return [row.top + 4, FOLDED - 8];
  if (row.height < ROW && !row.lane) return [row.top + 5, row.height - 10];
  if (row.levels === 1) return [row.top + (ROW - BAR) / 2, BAR];
  return [row.top + 5 + level * (STACKED + 2), STACKED];
}

export const rowHeight = (levels, isFolded) => (isFolded ? FOLDED : levels === 1 ? ROW : 10 + levels * (STACKED + 2) - 2);

function drawWaits(ctx, scene, span, top, height) {
  for (const wait of span.waits) {
    const left = place(scene, wait.from, wait.start);
    const right = Math.max(wait.end === null ? place(scene, scene.last, scene.now) : place(scene, wait.to, wait.end), left + LEAST);
    if (right < scene.plot || left > scene.width) continue;
    ctx.fillStyle = scene.colors.surface;
    box(ctx, left, top - 0.5, right - left, height + 1, 0);
    ctx.fill();
    ctx.fillStyle = scene.colors.waitSoft;
    ctx.strokeStyle = scene.colors.wait;
    ctx.lineWidth = 1;
    ctx.setLineDash([3, 2]);
    box(ctx, left + 0.5, top + 0.5, right - left - 1, height - 1);
    ctx.fill();
    ctx.stroke();
    ctx.setLineDash([]);
    if (height > 10) labelWait(ctx, scene, wait, left, right, top + height / 2);
  }
}

function labelWait(ctx, scene, wait, left, right, middle) {
  const from = Math.max(left, scene.plot);
  const room = Math.min(right, scene.width) - from - 10;
  if (room < 10) return;
  ink(ctx, scene.colors.wait);
  drawShape(ctx, "wait", from + 9, middle, 3);
  if (room < 30) return;
  const took = wait.start === null ? "" : ` ${stretch((wait.end ?? scene.now) - wait.start)}`;
  const verb = wait.end === null ? "waits" : "waited";
  setFont(ctx, scene.fonts.small);
  const text = [`${verb} for ${plain(wait.kind)}${took}`, `${plain(wait.kind)}${took}`, took.trim()].find((one) => one && widthOf(ctx, one) <= room - 10);
  if (text) ctx.fillText(text, from + 16, middle + 0.5);
}

function labelSpan(ctx, scene, span, left, right, middle, hue) {
  const firstWait = span.waits.length ? place(scene, span.waits[0].from, span.waits[0].start) : right;
  const from = Math.max(left, scene.plot) + 4;
  const room = Math.min(right, scene.width, firstWait) - from - 3;
  if (room < 9) return;
  ink(ctx, scene.colors[hue]);
  drawShape(ctx, span.status, from + 4.5, middle, 3.4);
  if (room < 34) return;
  setFont(ctx, scene.fonts.small);
  const took = span.start === null ? "" : stretch((span.end ?? scene.now) - span.start);
  const said = span.label ? plain(span.label) : "";
  const word = said || (WORDS[span.status] ?? plain(span.status));
  const texts = span.status === "ok" ? [took] : [`${word} ${took}`, word];
  const text = texts.find((one) => widthOf(ctx, one) <= room - 14) ?? (room > 72 ? fit(ctx, word, room - 14) : "");
  if (text) ctx.fillText(text, from + 13, middle + 0.5);
}

/**
 * Thousands of these are drawn in one frame, so: no path, no round corners. There is no room for a shape either;
 * a failure is solid and taller than the others, so that it is not told by its hue alone.
 */
function drawNarrow(ctx, scene, hue, left, right, top, height) {
  const width = Math.max(right - left, LEAST);
  const more = hue === "fail" && height > 10 ? 3 : 0;
  ctx.fillStyle = scene.colors[hue];
  ctx.fillRect(left, top - more, width, height + 2 * more);
  if (width <= LEAST || hue === "fail") return;
  ctx.fillStyle = scene.colors[`${hue}Soft`];
  ctx.fillRect(left + 1, top + 1, width - 2, height - 2);
}

function drawBar(ctx, scene, hue, left, right, top, height, isDashed) {
  ctx.fillStyle = scene.colors[`${hue}Soft`];
  ctx.strokeStyle = scene.colors[hue];
  ctx.lineWidth = 1;
  if (isDashed) ctx.setLineDash([2, 2]);
  box(ctx, left + 0.5, top + 0.5, right - left - 1, height - 1);
  ctx.fill();
  ctx.stroke();
  if (isDashed) ctx.setLineDash([]);
}

function drawSpan(ctx, scene, row, span, left, right) {
  const hue = HUES[span.status] ?? "ink3";
  const [top, height] = barBox(row, span.level);
  if (right - left < NARROW) drawNarrow(ctx, scene, hue, left, right, top, height);
  else drawBar(ctx, scene, hue, left, right, top, height, span.status === "unknown");
  if (!span.startSeen) drawUnseenStart(ctx, scene, left, top, height, hue);
  if (span.end === null) drawOpenEnd(ctx, scene, right, top, height, hue);
  if (span.waits.length) drawWaits(ctx, scene, span, top, height);
  if (height >= STACKED && right - left >= NARROW) labelSpan(ctx, scene, span, left, right, top + height / 2, hue);
  else if (span.status === "fail") {
    ctx.fillStyle = scene.colors.fail;
    ctx.fillRect(left, top, Math.max(3, right - left), height);
  }
}

/** A torn left edge: the span begins before the first event that we know of it. */
function drawUnseenStart(ctx, scene, left, top, height, hue) {
  ctx.fillStyle = scene.colors.surface;
  ctx.fillRect(left - 1, top - 1, 4, height + 2);
  ctx.strokeStyle = scene.colors[hue];
  ctx.lineWidth = 1.5;
  ctx.beginPath();
  const teeth = height > 10 ? 4 : 2;
  for (let i = 0; i <= teeth; i++) {
    const y = top + (height * i) / teeth;
    if (i) ctx.lineTo(left + (i % 2 ? 4 : 0.5), y);
    else ctx.moveTo(left + 0.5, y);
  }
  ctx.stroke();
}

function drawOpenEnd(ctx, scene, right, top, height, hue) {
  if (right < scene.plot || right > scene.width + 8) return;
  ctx.fillStyle = scene.colors.surface;
  ctx.fillRect(right - 1.5, top + 1, 3, height - 2);
  ctx.strokeStyle = scene.colors[hue];
  ctx.lineWidth = 1.5;
  ctx.beginPath();
  ctx.moveTo(right - 1, top + height * 0.2);
  ctx.lineTo(right + 2.5, top + height / 2);
  ctx.lineTo(right - 1, top + height * 0.8);
  ctx.stroke();
}

/** Spans that share one pixel are drawn once, as the worst of them. */
function drawSpans(ctx, scene, row, spans) {
  let crowd = null;
  const flush = () => {
    if (crowd) drawSpan(ctx, scene, row, crowd.span, crowd.left, crowd.right);
    crowd = null;
  };
  for (const [index, told] of spans.entries()) {
    const span = row.isStacked ? { ...told, level: index % row.levels } : told;
    const [left, right] = spanEdges(scene, span);
    if (right < scene.plot || left > scene.width) continue;
    if (crowd && span.level === crowd.span.level && right - left <= LEAST && left - crowd.left < 1.5 && !span.waits.length) {
      crowd.right = Math.max(crowd.right, right);
      if ((WORST[span.status] ?? 2) > (WORST[crowd.span.status] ?? 2)) crowd.span = span;
      continue;
    }
    flush();
    crowd = { span, left, right };
  }
  flush();
}

/** Where attempts are too many to be told one by one: the stretches long enough to be seen. */
function drawBars(ctx, scene, row) {
  const [top, height] = row.isFolded ? [row.top + 4, FOLDED - 8] : [row.top + (ROW - BAR) / 2, BAR];
  for (const bar of row.lane.bars) {
    const [left, right] = spanEdges(scene, bar);
    if (right < scene.plot || left > scene.width) continue;
    const hue = HUES[bar.status] ?? "ink3";
    ctx.fillStyle = scene.colors[`${hue}Soft`];
    ctx.fillRect(left, top, right - left, height);
    ctx.fillStyle = scene.colors[hue];
    ctx.fillRect(left, top, right - left, 1);
    ctx.fillRect(left, top + height - 1, right - left, 1);
    if (bar.status === "wait" && height > 10) labelWait(ctx, scene, { ...bar, kind: "" }, left, right, top + height / 2);
  }
}

/**
 * How many events there are says nothing of how they ended: the bar is neutral, its foot has the worst end's hue and,
 * for a failure, is taller than the others'. Under spans the counts are only a line of ticks.
 */
function drawCells(ctx, scene, row, isUnder) {
  const { lane } = row;
  const [top, height] = row.isFolded ? [row.top + 3, FOLDED - 6] : isUnder ? [row.top + ROW - 11, 9] : [row.top + 4, ROW - 8];
  const most = Math.log2(1 + lane.most);
  for (const cell of lane.cells) {
    const left = scene.x(scene.binStart(cell.bin));
    if (left > scene.width) break;
    const right = scene.x(scene.binStart(cell.bin + 1));
    if (right < scene.plot) continue;
    const wide = Math.max(scene.isFiltered ? 2 : 1, Math.min(right - left, isUnder ? 2 : Infinity));
    const tall = isUnder ? (scene.isFiltered ? 9 : 4) : Math.max(4, (height * Math.log2(1 + cell.count)) / most);
    ctx.fillStyle = scene.isFiltered ? scene.colors.ink : scene.colors.ink3;
    ctx.globalAlpha = scene.isFiltered ? 0.9 : isUnder ? 0.6 : 0.42;
    ctx.fillRect(left, top + height - tall, wide, tall);
    ctx.globalAlpha = 1;
    if (isUnder || !cell.worst) continue;
    const foot = cell.worst === "fail" ? 7 : 3;
    ctx.fillStyle = scene.colors[HUES[cell.worst] ?? "ink3"];
    ctx.fillRect(left, top + height - Math.min(foot, height), Math.max(wide, cell.worst === "fail" ? 2 : 1), Math.min(foot, height));
  }
}

/** Single events, where few enough are in view. */
function drawTicks(ctx, scene, row) {
  const bottom = row.top + (row.isFolded ? FOLDED - 2 : ROW - 2);
  let last = -Infinity;
  for (const event of row.lane.ticks) {
    const x = place(scene, event.sequence, event.at);
    if (x < scene.plot - 2 || x > scene.width + 2) continue;
    const hue = event.kind === "memory" ? "memory" : event.status === "fail" ? "fail" : scene.isFiltered ? "ink" : "ink2";
    ctx.fillStyle = scene.colors[hue];
    const tall = event.status === "fail" || event.kind === "memory" || scene.isFiltered ? 8 : 5;
    if (x - last >= 1 || tall > 5) ctx.fillRect(Math.round(x) - 0.75, bottom - tall, 1.5, tall);
    last = x;
  }
}

function twisty(ctx, x, y, isClosed) {
  ctx.lineWidth = 1.4;
  ctx.beginPath();
  if (isClosed) {
    ctx.moveTo(x - 1.5, y - 3);
    ctx.lineTo(x + 1.5, y);
    ctx.lineTo(x - 1.5, y + 3);
  } else {
    ctx.moveTo(x - 3, y - 1.5);
    ctx.lineTo(x, y + 1.5);
    ctx.lineTo(x + 3, y - 1.5);
  }
  ctx.stroke();
}

const NO_NODE = "the run itself";

function drawGutter(ctx, scene, row) {
  const { lane } = row;
  const middle = row.top + (row.isFolded ? FOLDED : ROW) / 2;
  ctx.fillStyle = scene.hover?.key === lane.key ? scene.colors.sunk : scene.colors.surface;
  ctx.fillRect(0, row.top, scene.plot - 1, row.height - 1);
  if (row.isPinned) {
    ctx.fillStyle = scene.colors.ink3;
    ctx.fillRect(0, row.top + 3, 2, row.own - 6);
  }
  ink(ctx, scene.colors.ink3);
  twisty(ctx, 10.5, middle, row.isFolded);
  ink(ctx, scene.colors[HUES[lane.status] ?? "ink3"]);
  drawShape(ctx, lane.status, 25, middle, row.isFolded ? 2.6 : 3.4);
  setFont(ctx, row.isFolded ? scene.fonts.tiny : lane.node === null ? scene.fonts.sans : scene.fonts.mono);
  const notes = [];
  if (row.hidden) notes.push(`+${row.hidden} run${row.hidden === 1 ? "" : "s"}`);
  if (lane.hits !== undefined) notes.push(lane.hits.toLocaleString("en"));
  else if (lane.attempts > 1) notes.push(`×${lane.attempts.toLocaleString("en")}`);
  let room = scene.plot - 46;
  if (notes.length && scene.width >= 560) {
    const text = notes.join(" ");
    ink(ctx, scene.colors.ink3);
    ctx.textAlign = "right";
    ctx.fillText(text, scene.plot - 10, middle + 0.5);
    ctx.textAlign = "left";
    room -= widthOf(ctx, text) + 8;
  }
  ink(ctx, lane.node === null ? scene.colors.ink2 : scene.colors.ink);
  ctx.fillText(fitted(ctx, lane.node === null ? NO_NODE : plain(lane.node), room), 36, middle + 0.5);
}

const cuts = new Map();

/** Cutting text measures it a dozen times, so what came of it is kept. */
function fitted(ctx, text, room) {
  const key = `${ctx.fontSet}|${Math.round(room)}|${text}`;
  let cut = cuts.get(key);
  if (cut === undefined) {
    if (cuts.size > 5000) cuts.clear();
    cuts.set(key, (cut = fit(ctx, text, room)));
  }
  return cut;
}

export const forgetCuts = () => (cuts.clear(), widths.clear());

function clipped(ctx, x, y, width, height, draw) {
  ctx.save();
  ctx.beginPath();
  ctx.rect(x, y, width, height);
  ctx.clip();
  draw();
  restore(ctx);
}

function drawRow(ctx, scene, row) {
  if (!row.lane) {
    ctx.fillStyle = scene.colors.line;
    ctx.fillRect(36, row.top + row.height / 2 - 3, scene.plot - 100, 6);
    ctx.fillRect(0, row.top + row.height - 1, scene.width, 1);
    return;
  }
  const { lane } = row;
  clipped(ctx, scene.plot, row.top - 1, scene.width - scene.plot, row.own + 1, () => {
    ctx.globalAlpha = scene.isFiltered ? 0.55 : 1;
    if (lane.spans.length) drawSpans(ctx, scene, row, lane.spans);
    if (lane.bars.length) drawBars(ctx, scene, row);
    ctx.globalAlpha = 1;
    if (lane.ticks.length) drawTicks(ctx, scene, row);
    else if (!scene.hasEvents) drawCells(ctx, scene, row, lane.spans.length > 0);
  });
  drawGutter(ctx, scene, row);
  for (const child of row.children) drawChild(ctx, scene, child);
  ctx.fillStyle = scene.colors.line;
  ctx.fillRect(0, row.top + row.height - 1, scene.width, 1);
}

const ENDS = { completed: "ok", failed: "fail", cancelled: "cancelled" };
export const childStatus = (child) => ENDS[child.status] ?? (child.terminal ? "unknown" : /^(wait|pause)/.test(child.status) ? "wait" : "live");

function drawChild(ctx, scene, row) {
  const { child } = row;
  const middle = row.top + CHILD / 2;
  ctx.fillStyle = scene.colors.sunk;
  ctx.fillRect(0, row.top, scene.plot - 1, CHILD * (1 + row.nested.length));
  ink(ctx, scene.colors.ink3);
  twisty(ctx, 26, middle, !row.isOpen);
  ink(ctx, scene.colors[HUES[childStatus(child)] ?? "ink3"]);
  drawShape(ctx, childStatus(child), 39, middle, 3);
  setFont(ctx, scene.fonts.mono);
  ink(ctx, scene.colors.ink2);
  ctx.fillText(fitted(ctx, plain(child.workflow ?? child.run), scene.plot - 62), 49, middle + 0.5);
  if (child.start === null) return;
  clipped(ctx, scene.plot, row.top, scene.width - scene.plot, CHILD * (1 + row.nested.length), () => {
    const span = { from: null, to: null, start: child.start, end: child.end, status: childStatus(child), startSeen: true, label: "", waits: [], level: 0 };
    drawSpans(ctx, scene, { top: row.top, height: CHILD, levels: 1 }, [span]);
    for (const { lane, top } of row.nested) {
      const spans = lane.spans.map((one) => ({ ...one, from: null, to: null, waits: [] }));
      drawSpans(ctx, scene, { top, height: CHILD, levels: 1 }, spans.length ? spans : lane.bars.map((bar) => ({ ...bar, from: null, to: null, startSeen: true, label: "", waits: [], level: 0 })));
    }
  });
  for (const { lane, top } of row.nested) {
    ink(ctx, scene.colors.ink3);
    setFont(ctx, scene.fonts.mono);
    ctx.fillText(fitted(ctx, lane.node === null ? NO_NODE : plain(lane.node), scene.plot - 70), 58, top + CHILD / 2 + 0.5);
  }
}

function drawRows(ctx, scene) {
  const top = HEAD + scene.pinnedHeight;
  clipped(ctx, 0, top, scene.width, scene.height - top, () => {
    for (const row of scene.rows) drawRow(ctx, scene, row);
  });
  for (const row of scene.pinned) {
    ctx.fillStyle = scene.colors.surface;
    ctx.fillRect(0, row.top, scene.width, row.height);
    drawRow(ctx, scene, row);
  }
  if (!scene.pinned.length) return;
  ctx.fillStyle = scene.colors.line2;
  ctx.fillRect(0, top - 1, scene.width, 1);
}

/** A collapsed gap is a band through all lanes. */
function drawGapBands(ctx, scene) {
  for (const gap of scene.gapsCollapsed ? scene.gaps : []) {
    const [left, right] = [place(scene, gap.from, gap.start), place(scene, gap.to, gap.end)];
    if (right < scene.plot || left > scene.width) continue;
    ctx.fillStyle = scene.colors.sunk;
    ctx.fillRect(left, AXIS, right - left, scene.height - AXIS);
    ctx.strokeStyle = scene.colors.line2;
    ctx.lineWidth = 1;
    ctx.setLineDash([2, 2]);
    ctx.beginPath();
    for (const x of [left, right]) {
      ctx.moveTo(Math.round(x) + 0.5, AXIS);
      ctx.lineTo(Math.round(x) + 0.5, scene.height);
    }
    ctx.stroke();
    ctx.setLineDash([]);
  }
}

/** How long each gap was, and where that is written: always when it is collapsed, else where there is room for it. */
function gapLabels(ctx, scene) {
  setFont(ctx, scene.fonts.small);
  return scene.gaps.flatMap((gap) => {
    const left = Math.max(place(scene, gap.from, gap.start), scene.plot);
    const right = Math.min(place(scene, gap.to, gap.end), scene.width);
    const text = `${stretch(gap.end - gap.start)} idle`;
    const width = widthOf(ctx, text) + 10;
    if (right < left || (!scene.gapsCollapsed && right - left < width + 160)) return [];
    const middle = Math.min(Math.max((left + right) / 2, scene.plot + width / 2), scene.width - width / 2);
    return [{ text, left: middle - width / 2, width, middle }];
  });
}

function drawGapLabels(ctx, scene) {
  const labels = gapLabels(ctx, scene);
  ctx.textAlign = "center";
  for (const label of labels) {
    ctx.fillStyle = scene.colors.sunk;
    box(ctx, label.left, MINI + 4, label.width, AXIS - MINI - 8, 3);
    ctx.fill();
    ink(ctx, scene.colors.ink2);
    ctx.fillText(label.text, label.middle, (MINI + AXIS) / 2 + 0.5);
  }
  ctx.textAlign = "left";
}

/** Time running backwards: a mark on the axis where the reported time is before that of the event in front. */
function drawReversals(ctx, scene) {
  let last = -Infinity;
  for (const one of scene.reversals) {
    const x = place(scene, one.sequence, one.at);
    if (x < scene.plot || x > scene.width || x - last < 9) continue;
    last = x;
    ctx.fillStyle = scene.colors.surface;
    ctx.fillRect(x - 5, AXIS - 10, 10, 9);
    ctx.strokeStyle = scene.colors.wait;
    ctx.lineWidth = 1.4;
    ctx.beginPath();
    ctx.moveTo(x + 4, AXIS - 5.5);
    ctx.lineTo(x - 3.5, AXIS - 5.5);
    ctx.moveTo(x - 0.5, AXIS - 8.5);
    ctx.lineTo(x - 3.5, AXIS - 5.5);
    ctx.lineTo(x - 0.5, AXIS - 2.5);
    ctx.stroke();
  }
}

/** From cause to effect, between the lanes of the two. */
function drawLinks(ctx, scene) {
  for (const link of scene.links) {
    const from = scene.pointOf(link.from), to = scene.pointOf(link.to);
    if (!from || !to || Math.max(from.x, to.x) < scene.plot || Math.min(from.x, to.x) > scene.width) continue;
    const isChosen = link.from.sequence === scene.selected || link.to.sequence === scene.selected;
    ctx.strokeStyle = isChosen ? scene.colors.live : scene.colors.line3;
    ctx.globalAlpha = isChosen ? 1 : 0.7;
    ctx.lineWidth = isChosen ? 1.6 : 1;
    const bend = Math.max(12, Math.min(60, Math.abs(to.x - from.x) / 2));
    ctx.beginPath();
    ctx.moveTo(from.x, from.y);
    if (Math.abs(from.y - to.y) < 2) ctx.quadraticCurveTo((from.x + to.x) / 2, from.y - 14, to.x, to.y);
    else ctx.bezierCurveTo(from.x + bend, from.y, to.x - bend, to.y, to.x, to.y);
    ctx.stroke();
    ctx.fillStyle = ctx.strokeStyle;
    ctx.beginPath();
    ctx.arc(to.x, to.y, isChosen ? 2.6 : 1.8, 0, Math.PI * 2);
    ctx.fill();
    ctx.globalAlpha = 1;
  }
}

/** The whole run in small, with the window as the part that is not dimmed. */
function drawMini(ctx, scene) {
  ctx.fillStyle = scene.colors.surface;
  ctx.fillRect(0, 0, scene.width, MINI);
  const { whole } = scene;
  setFont(ctx, scene.fonts.sans);
  ink(ctx, scene.colors.ink3);
  if (scene.width >= 560) ctx.fillText("whole run", 12, MINI / 2 + 0.5);
  const most = Math.log2(1 + whole.most);
  const bottom = MINI - 4;
  const x = (bin) => scene.miniX(whole.binStart(bin));
  ctx.fillStyle = scene.isFiltered ? scene.colors.ink2 : scene.colors.ink3;
  ctx.globalAlpha = 0.5;
  whole.counts.forEach((count, bin) => {
    if (!count) return;
    const tall = Math.max(2, (14 * Math.log2(1 + count)) / most);
    ctx.fillRect(x(bin), bottom - tall, Math.max(1, x(bin + 1) - x(bin) - 0.5), tall);
  });
  ctx.globalAlpha = 1;
  ctx.fillStyle = scene.colors.memory;
  for (const bin of whole.writes) ctx.fillRect(x(bin), bottom + 1, Math.max(1.5, x(bin + 1) - x(bin)), 2);
  ctx.fillStyle = scene.colors.fail;
  for (const bin of whole.fails) ctx.fillRect(x(bin), 2, Math.max(2, x(bin + 1) - x(bin)), 4);
  const [left, right] = scene.miniWindow;
  ctx.fillStyle = scene.colors.surface;
  ctx.globalAlpha = 0.6;
  ctx.fillRect(scene.plot, 0, left - scene.plot, MINI);
  ctx.fillRect(right, 0, scene.width - right, MINI);
  ctx.globalAlpha = 1;
  ctx.fillStyle = scene.colors.line;
  ctx.fillRect(0, MINI - 1, scene.width, 1);
  ctx.strokeStyle = scene.colors.line3;
  ctx.lineWidth = 1;
  box(ctx, left + 0.5, 0.5, Math.max(3, right - left - 1), MINI - 2, 2);
  ctx.stroke();
}

function drawGrid(ctx, scene) {
  ctx.fillStyle = scene.colors.line;
  for (const tick of scene.ticks) {
    const x = Math.round(scene.x(tick.at));
    if (x >= scene.plot) ctx.fillRect(x, AXIS - 6, 1, scene.height - AXIS + 6);
  }
}

function drawAxis(ctx, scene) {
  ctx.fillStyle = scene.colors.surface;
  ctx.fillRect(0, MINI, scene.width, AXIS - MINI);
  const middle = (MINI + AXIS) / 2 + 0.5;
  const taken = gapLabels(ctx, scene);
  setFont(ctx, scene.fonts.sans);
  ink(ctx, scene.colors.ink3);
  ctx.fillText(scene.axisName, 12, middle);
  ink(ctx, scene.colors.ink2);
  let free = scene.plot;
  for (const tick of scene.ticks) {
    const x = Math.round(scene.x(tick.at));
    if (x < scene.plot - 1) continue;
    const width = widthOf(ctx, tick.text) + 6;
    const left = x + width < scene.width ? x + 4 : x - width + 2;
    if (left < free || taken.some((label) => left < label.left + label.width && label.left < left + width)) continue;
    free = left + width;
    ctx.fillText(tick.text, left, middle);
    ctx.fillStyle = scene.colors.line2;
    ctx.fillRect(x, AXIS - 7, 1, 7);
    ink(ctx, scene.colors.ink2);
  }
}

function drawMarks(ctx, scene) {
  let last = -Infinity;
  for (const mark of scene.marks) {
    const x = place(scene, mark.sequence, mark.at);
    if (x < scene.plot - 4 || x > scene.width || x - last < 6) continue;
    last = x;
    ink(ctx, scene.colors[HUES[mark.status] ?? "ink3"]);
    drawShape(ctx, mark.status || "unknown", Math.max(x, scene.plot + 4), AXIS - 1, 3);
  }
}

function drawMemory(ctx, scene) {
  const middle = AXIS + MEMORY / 2;
  ctx.fillStyle = scene.colors.memorySoft;
  ctx.fillRect(0, AXIS, scene.width, MEMORY - 1);
  ctx.fillStyle = scene.colors.line;
  ctx.fillRect(0, AXIS + MEMORY - 1, scene.width, 1);
  ink(ctx, scene.colors.memory);
  diamond(ctx, 25, middle, 4);
  ctx.fill();
  setFont(ctx, scene.fonts.monoBold);
  ctx.fillText("memory", 36, middle + 0.5);
  setFont(ctx, scene.fonts.sans);
  ctx.textAlign = "right";
  const { writesTotal, runWrites } = scene;
  if (scene.width >= 560) ctx.fillText(writesTotal === runWrites ? runWrites.toLocaleString("en") : `${writesTotal.toLocaleString("en")} of ${runWrites.toLocaleString("en")}`, scene.plot - 10, middle + 0.5);
  ctx.textAlign = "left";
  ctx.save();
  ctx.beginPath();
  ctx.rect(scene.plot, AXIS, scene.width - scene.plot, MEMORY);
  ctx.clip();
  drawWriteBuckets(ctx, scene, middle);
  drawWrites(ctx, scene, middle);
  const chosen = scene.writes.find((write) => write.sequence === scene.selected);
  if (chosen) drawWrite(ctx, scene, place(scene, chosen.sequence, chosen.at), middle, MARK + 2, scene.colors.ink);
  restore(ctx);
}

/** Marks shrink where there are more than fit side by side. Those in one place are one mark with their number. */
function drawWrites(ctx, scene, middle) {
  const groups = [];
  for (const write of scene.writes) {
    const x = place(scene, write.sequence, write.at);
    if (x < scene.plot - MARK || x > scene.width + MARK) continue;
    const last = groups.at(-1);
    if (last && x - last.x < 2.5) last.count++;
    else groups.push({ x, count: 1 });
  }
  const isCrowded = groups.length * MARK > scene.width - scene.plot;
  for (const { x } of groups) {
    drawWrite(ctx, scene, x, middle, isCrowded ? MARK - 2.5 : MARK, isCrowded ? null : scene.colors.surface);
  }
  if (!isCrowded) numberGroups(ctx, scene, groups, middle);
}

function numberGroups(ctx, scene, groups, middle) {
  setFont(ctx, scene.fonts.small);
  ink(ctx, scene.colors.memory);
  for (const [index, { x, count }] of groups.entries()) {
    if (count === 1) continue;
    const text = `×${count}`;
    const room = widthOf(ctx, text) + 4;
    const before = groups[index - 1]?.x ?? scene.plot - MARK;
    const after = groups[index + 1]?.x ?? scene.width + MARK;
    if (after - x > room + 2 * MARK) ctx.fillText(text, x + MARK + 2, middle + 0.5);
    else if (x - before > room + 2 * MARK) ctx.fillText(text, x - MARK - room + 2, middle + 0.5);
  }
}

function drawWrite(ctx, scene, x, middle, size, edge) {
  diamond(ctx, x, middle, size);
  ctx.fillStyle = scene.colors.memory;
  ctx.fill();
  if (!edge) return;
  ctx.lineWidth = 1.5;
  ctx.strokeStyle = edge;
  ctx.stroke();
}

function drawWriteBuckets(ctx, scene, middle) {
  const most = Math.log2(1 + scene.writeBuckets.reduce((n, bucket) => Math.max(n, bucket.count), 1));
  setFont(ctx, scene.fonts.small);
  let taken = -Infinity;
  for (const bucket of scene.writeBuckets) {
    const left = place(scene, bucket.from, bucket.start);
    const right = Math.max(place(scene, bucket.to, bucket.end), left + 2);
    if (right < scene.plot || left > scene.width) continue;
    const tall = Math.max(4, ((MEMORY - 8) * Math.log2(1 + bucket.count)) / most);
    ctx.fillStyle = scene.colors.memory;
    ctx.fillRect(left, middle - tall / 2, right - left, tall);
    const text = bucket.count.toLocaleString("en");
    if (bucket.count > 1 && right - left >= widthOf(ctx, text) + 6 && left > taken) {
      ctx.fillStyle = scene.colors.memorySoft;
      ctx.fillText(text, left + 3, middle + 0.5);
      taken = right;
    }
  }
}

function drawSelected(ctx, scene) {
  if (scene.selected === null) return;
  const x = place(scene, scene.selected, scene.selectedAt);
  if (x < scene.plot || x > scene.width) return;
  const text = `#${scene.selected.toLocaleString("en")}`;
  setFont(ctx, scene.fonts.smallBold);
  const width = widthOf(ctx, text) + 10;
  const left = Math.min(Math.max(x - width / 2, scene.plot), scene.width - width);
  ctx.fillStyle = scene.colors.live;
  ctx.fillRect(Math.round(x) - 0.75, AXIS, 1.5, scene.height - AXIS - 4);
  box(ctx, left, scene.height - FOOT + 2, width, FOOT - 3, 3);
  ctx.fill();
  ctx.fillStyle = scene.colors.surface;
  ctx.fillText(text, left + 5, scene.height - FOOT / 2 + 1);
}

function drawNow(ctx, scene) {
  if (!scene.isOpen || scene.axis === "sequence") return;
  const x = Math.round(scene.x(scene.now));
  if (x < scene.plot || x > scene.width) return;
  ctx.strokeStyle = scene.colors.live;
  ctx.lineWidth = 1;
  ctx.setLineDash([2, 3]);
  ctx.beginPath();
  ctx.moveTo(x + 0.5, AXIS);
  ctx.lineTo(x + 0.5, scene.height);
  ctx.stroke();
  ctx.setLineDash([]);
}

function drawArea(ctx, scene) {
  if (!scene.area) return;
  const [left, right] = scene.area;
  ctx.fillStyle = scene.colors.live;
  ctx.globalAlpha = 0.12;
  ctx.fillRect(left, AXIS, right - left, scene.height - AXIS);
  ctx.globalAlpha = 1;
  ctx.fillRect(left, AXIS, 1, scene.height - AXIS);
  ctx.fillRect(right, AXIS, 1, scene.height - AXIS);
}

export function paint(ctx, scene) {
  ctx.fontSet = null;
  ctx.setTransform(scene.ratio, 0, 0, scene.ratio, 0, 0);
  ctx.fillStyle = scene.colors.surface;
  ctx.fillRect(0, 0, scene.width, scene.height);
  ctx.textBaseline = "middle";
  ctx.textAlign = "left";
  ctx.direction = "ltr";
  ctx.lineCap = "round";
  ctx.lineJoin = "round";
  drawGrid(ctx, scene);
  drawGapBands(ctx, scene);
  drawNow(ctx, scene);
  drawRows(ctx, scene);
  clipped(ctx, scene.plot, HEAD, scene.width - scene.plot, scene.height - HEAD, () => drawLinks(ctx, scene));
  drawMemory(ctx, scene);
  drawAxis(ctx, scene);
  clipped(ctx, scene.plot, MINI, scene.width - scene.plot, AXIS - MINI, () => {
    drawGapLabels(ctx, scene);
    drawReversals(ctx, scene);
  });
  drawMarks(ctx, scene);
  drawMini(ctx, scene);
  drawArea(ctx, scene);
  drawSelected(ctx, scene);
  ctx.fillStyle = scene.colors.line;
  ctx.fillRect(scene.plot - 1, MINI, 1, scene.height - MINI);
}

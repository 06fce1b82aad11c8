// Draws the timeline. Gets everything it needs in one `scene` and keeps nothing but measured text.

import { plain } from "./hidden.js";
import { stretch } from "./times.js";

export const AXIS = 24; // height of the axis
export const MEMORY = 28; // height of the memory lane under it
export const FOOT = 18; // room for the tag of the selected event
export const ROW = 28;
export const FOLDED = 14;
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
const place = (scene, sequence, at) => scene.x(scene.axis === "sequence" ? sequence : (at ?? scene.timeAt(sequence)));

export function spanEdges(scene, span) {
  const left = place(scene, span.from, span.start);
  const right = span.end === null ? place(scene, Math.max(span.to ?? 0, scene.last), scene.now) : place(scene, span.to, span.end);
  return [left, Math.max(right, left + LEAST)];
}

export function barBox(row, level) {
  if (row.isFolded) return [row.top + 4, FOLDED - 8];
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
function drawSpans(ctx, scene, row) {
  let crowd = null;
  const flush = () => {
    if (crowd) drawSpan(ctx, scene, row, crowd.span, crowd.left, crowd.right);
    crowd = null;
  };
  for (const span of row.lane.spans) {
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

function drawBuckets(ctx, scene, row) {
  const [top, height] = row.isFolded ? [row.top + 3, FOLDED - 6] : [row.top + 4, row.height - 8];
  const most = Math.log2(1 + row.lane.most);
  const { buckets } = row.lane;
  for (const [index, bucket] of buckets.entries()) {
    const left = place(scene, bucket.from, bucket.start);
    const next = buckets[index + 1];
    // A bucket's last attempt may end long after the next bucket has begun.
    const until = next ? Math.min(place(scene, bucket.to, bucket.end), place(scene, next.from, next.start)) : place(scene, bucket.to, bucket.end);
    const right = Math.max(until, left + 1.5);
    if (right < scene.plot || left > scene.width) continue;
    const tall = Math.max(3, (height * Math.log2(1 + bucket.count)) / most);
    const wide = Math.max(1, right - left - (right - left > 3 ? 0.5 : 0));
    // How many there are says nothing of how they ended: the bar is neutral, its foot has the worst end's hue and,
    // for a failure, is taller than the others'.
    const foot = bucket.worst === "fail" ? 6 : 3;
    ctx.fillStyle = scene.colors.ink3;
    ctx.globalAlpha = 0.45;
    ctx.fillRect(left, top + height - tall, wide, tall);
    ctx.globalAlpha = 1;
    ctx.fillStyle = scene.colors[HUES[bucket.worst] ?? "ink3"];
    ctx.fillRect(left, top + height - Math.min(foot, height / 2), wide, Math.min(foot, height / 2));
  }
}

function drawGutter(ctx, scene, row) {
  const { lane } = row;
  const middle = row.top + (row.isFolded ? FOLDED : Math.min(row.height, ROW)) / 2;
  ctx.fillStyle = scene.hover?.node === lane.node && scene.hover.isGutter ? scene.colors.sunk : scene.colors.surface;
  ctx.fillRect(0, row.top, scene.plot - 1, row.height - 1);
  ink(ctx, scene.colors.ink3);
  ctx.lineWidth = 1.4;
  ctx.beginPath();
  if (row.isFolded) {
    ctx.moveTo(9, middle - 3);
    ctx.lineTo(12, middle);
    ctx.lineTo(9, middle + 3);
  } else {
    ctx.moveTo(7.5, middle - 1.5);
    ctx.lineTo(10.5, middle + 1.5);
    ctx.lineTo(13.5, middle - 1.5);
  }
  ctx.stroke();
  const hue = HUES[lane.status] ?? "ink3";
  ink(ctx, scene.colors[hue]);
  drawShape(ctx, lane.status, 25, middle, row.isFolded ? 2.6 : 3.4);
  setFont(ctx, row.isFolded ? scene.fonts.tiny : scene.fonts.mono);
  let room = scene.plot - 36 - 10;
  if (lane.attempts > 1 && scene.width >= 560) {
    const text = `×${lane.attempts.toLocaleString("en")}`;
    ink(ctx, scene.colors.ink3);
    ctx.textAlign = "right";
    ctx.fillText(text, scene.plot - 10, middle + 0.5);
    ctx.textAlign = "left";
    room -= widthOf(ctx, text) + 8;
  }
  ink(ctx, scene.filter && scene.filter !== lane.node ? scene.colors.ink3 : scene.colors.ink);
  if (!row.label || row.labelRoom !== room || row.labelFont !== ctx.fontSet) {
    row.label = fit(ctx, plain(lane.node), room);
    row.labelRoom = room;
    row.labelFont = ctx.fontSet;
  }
  ctx.fillText(row.label, 36, middle + 0.5);
}

function drawRows(ctx, scene) {
  ctx.save();
  ctx.beginPath();
  ctx.rect(0, AXIS + MEMORY, scene.width, scene.height - AXIS - MEMORY);
  ctx.clip();
  for (const row of scene.rows) {
    ctx.save();
    ctx.beginPath();
    ctx.rect(scene.plot, row.top - 1, scene.width - scene.plot, row.height + 1);
    ctx.clip();
    if (row.lane.buckets.length) drawBuckets(ctx, scene, row);
    drawSpans(ctx, scene, row);
    restore(ctx);
    drawGutter(ctx, scene, row);
    ctx.fillStyle = scene.colors.line;
    ctx.fillRect(0, row.top + row.height - 1, scene.width, 1);
  }
  restore(ctx);
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
  ctx.fillRect(0, 0, scene.width, AXIS);
  setFont(ctx, scene.fonts.sans);
  ink(ctx, scene.colors.ink3);
  ctx.fillText(scene.axisName, 12, AXIS / 2 + 0.5);
  ink(ctx, scene.colors.ink2);
  let free = scene.plot;
  for (const tick of scene.ticks) {
    const x = Math.round(scene.x(tick.at));
    if (x < scene.plot - 1) continue;
    const width = widthOf(ctx, tick.text) + 6;
    const left = x + width < scene.width ? x + 4 : x - width + 2;
    if (left < free) continue;
    free = left + width;
    ctx.fillText(tick.text, left, AXIS / 2 + 0.5);
    ctx.fillStyle = scene.colors.line2;
    ctx.fillRect(x, AXIS - 7, 1, 7);
    ink(ctx, scene.colors.ink2);
  }
  drawThumb(ctx, scene);
}

/** How much of the run is in view, and where: a thumb on the axis, once it is not all of it. */
function drawThumb(ctx, scene) {
  const [first, last] = scene.extents;
  const [from, to] = scene.view;
  if (to - from >= (last - first) * 0.999) return;
  const room = scene.width - scene.plot;
  const at = (value) => scene.plot + Math.min(1, Math.max(0, (value - first) / (last - first))) * room;
  ctx.fillStyle = scene.colors.line;
  ctx.fillRect(scene.plot, 0, room, 2);
  ctx.fillStyle = scene.colors.ink3;
  ctx.fillRect(at(from), 0, Math.max(8, at(to) - at(from)), 2);
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
  ctx.fillText(scene.writesTotal.toLocaleString("en"), scene.plot - 10, middle + 0.5);
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
  drawNow(ctx, scene);
  drawRows(ctx, scene);
  drawMemory(ctx, scene);
  drawAxis(ctx, scene);
  drawMarks(ctx, scene);
  drawArea(ctx, scene);
  drawSelected(ctx, scene);
  ctx.fillStyle = scene.colors.line;
  ctx.fillRect(scene.plot - 1, 0, 1, scene.height);
}

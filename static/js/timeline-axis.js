// Where the ticks of the timeline stand and what they say.

import { clock, day, isRelative, offsetMinutes, since, wall, zoneLabel } from "./times.js";

const SECOND = 1000, MINUTE = 60_000, HOUR = 3_600_000, DAY = 86_400_000;
const LONGER_STEPS = [1, 2, 5, 10, 15, 30].map((n) => n * SECOND)
  .concat([1, 2, 5, 10, 15, 30].map((n) => n * MINUTE))
  .concat([1, 2, 3, 6, 12].map((n) => n * HOUR))
  .concat([1, 2, 7, 14, 28, 91, 364].map((n) => n * DAY));

function decimalStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((n) => n * power).find((step) => step >= least * 0.999);
}

export function timeStep(least) {
  if (least <= SECOND / 2) return decimalStep(least);
  return LONGER_STEPS.find((step) => step >= least) ?? decimalStep(least / DAY) * DAY;
}

function sinceLabel(ms, step) {
  if (Math.abs(ms) < step / 1000) return "0 s";
  const sign = ms < 0 ? "−" : "+";
  const size = Math.abs(ms);
  if (step < 0.1) return `${sign}${Math.round(size * 1000).toLocaleString("en")} µs`;
  if (size < SECOND) return `${sign}${+size.toFixed(2)} ms`;
  if (step < SECOND) return `${sign}${(size / SECOND).toFixed(Math.min(6, Math.max(1, Math.ceil(-Math.log10(step / SECOND)))))} s`;
  if (size < MINUTE) return `${sign}${Math.round(size / SECOND)} s`;
  return since(ms).replace(/ 0 s$/, "").replace(/ 0 min$/, "");
}

function clockLabel(ms, step) {
  if (step >= DAY) return day(ms);
  const p = wall(ms);
  if (step >= MINUTE) return p.hour === "00" && p.minute === "00" ? day(ms) : `${p.hour}:${p.minute}`;
  const digits = step >= SECOND ? 0 : step >= 1 ? 3 : 6;
  return clock(ms, digits);
}

/** [{at, text}] for a stretch of time; relative to `start`, or by the clock of the chosen zone. */
export function timeTicks(from, to, pixels, start) {
  const relative = isRelative();
  const step = timeStep(((to - from) / pixels) * (relative ? 92 : 108));
  const base = relative ? start : -offsetMinutes((from + to) / 2) * MINUTE;
  const ticks = [];
  for (let n = Math.ceil((from - base) / step); ticks.length < 60; n++) {
    const at = base + n * step;
    if (at > to) break;
    ticks.push({ at, text: relative ? sinceLabel(n * step, step) : clockLabel(at, step) });
  }
  return ticks;
}

/** The same where idle gaps are collapsed: each busy stretch has ticks of its own, as many as it has room for. */
export function brokenTicks(scale, from, to, pixels, start) {
  const unit = (scale.unit(to) - scale.unit(from)) / pixels;
  return scale.busy(from, to).flatMap(([a, b]) => {
    const room = (scale.unit(b) - scale.unit(a)) / unit;
    return room < 60 ? [] : timeTicks(a, b, room, start);
  });
}

export function sequenceTicks(from, to, pixels) {
  const step = Math.max(1, decimalStep(Math.max(((to - from) / pixels) * 84, 0.5)));
  const ticks = [];
  for (let n = Math.ceil(from / step); ticks.length < 60; n++) {
    const at = n * step || 0; // not −0
    if (at > to) break;
    ticks.push({ at, text: `#${at.toLocaleString("en")}` });
  }
  return ticks;
}

export function axisName(axis, at) {
  if (axis === "sequence") return "sequence";
  return isRelative() ? "from start" : zoneLabel(at);
}

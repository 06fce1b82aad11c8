// One clock for the whole page: table, axis and tip show the same zone, and it is named.
// The zone is "relative", "utc", "local" or a zone's own name; it is kept in `?tz=` and remembered.

import { param, setParams } from "./address.js";
import { keep, recall } from "./kept.js";

const HOME = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
const ORDER = ["relative", "utc", "local"];
const OTHER = "other"; // of the select: any zone that has a name
const formats = new Map();
let chosen = known(param("tz")) ?? known(recall("tz")) ?? "relative";

function known(zone) {
  if (!zone) return null;
  if (ORDER.includes(zone)) return zone;
  try {
    Intl.DateTimeFormat("en", { timeZone: zone });
    return zone;
  } catch {
    return null;
  }
}

export const zone = () => chosen;
export const isRelative = () => chosen === "relative";

/** The IANA name behind the choice; relative times are anchored in UTC. */
export function zoneName() {
  if (chosen === "local") return HOME;
  return chosen === "relative" || chosen === "utc" ? "UTC" : chosen;
}

function format(name) {
  if (!formats.has(name)) {
    formats.set(
      name,
      new Intl.DateTimeFormat("en-GB", {
        timeZone: name, hourCycle: "h23", timeZoneName: "short", year: "numeric", month: "short", day: "2-digit",
        hour: "2-digit", minute: "2-digit", second: "2-digit",
      }),
    );
  }
  return formats.get(name);
}

/** Wall clock parts of a moment in the chosen zone. */
export function wall(ms) {
  const parts = {};
  for (const { type, value } of format(zoneName()).formatToParts(ms)) parts[type] = value;
  return parts;
}

/** Minutes that the chosen zone is ahead of UTC at a moment. */
export function offsetMinutes(ms) {
  const name = zoneName();
  if (name === "UTC") return 0;
  const p = wall(ms);
  const months = "JanFebMarAprMayJunJulAugSepOctNovDec";
  const month = months.indexOf(p.month.slice(0, 3)) / 3;
  const shown = Date.UTC(+p.year, month, +p.day, +p.hour, +p.minute, +p.second);
  return Math.round((shown - Math.floor(ms / 1000) * 1000) / 60000);
}

/** Short name of the chosen zone at a moment: "UTC", "CET", "GMT+5:30". */
export const zoneLabel = (ms = Date.now()) => (zoneName() === "UTC" ? "UTC" : wall(ms).timeZoneName);

const FRACTION = /\.(\d+)/;

/** Milliseconds since the epoch with the microseconds that Date would drop. */
export function parse(text) {
  const digits = FRACTION.exec(text)?.[1] ?? "";
  const whole = Date.parse(digits ? text.replace(FRACTION, "") : text);
  return whole + Number(`0.${digits || 0}`) * 1000;
}

function fraction(ms, digits) {
  if (!digits) return "";
  const micro = Math.round((ms - Math.floor(ms / 1000) * 1000) * 1000);
  return `.${String(micro).padStart(6, "0").slice(0, digits)}`;
}

const digitsOf = (text) => ((FRACTION.exec(text)?.[1].replace(/0+$/, "").length ?? 0) > 3 ? 6 : 3);

export const clock = (ms, digits = 3) => {
  const p = wall(ms);
  return `${p.hour}:${p.minute}:${p.second}${fraction(ms, digits)}`;
};

export const day = (ms) => {
  const p = wall(ms);
  return `${p.day} ${p.month.slice(0, 3)}`;
};

/** The whole of it: date, time, zone. */
export function absolute(ms, digits = 3) {
  const p = wall(ms);
  return `${p.day} ${p.month.slice(0, 3)} ${p.year} ${clock(ms, digits)} ${zoneLabel(ms)}`;
}

/** A stretch of time to three figures: "390 ms", "5.20 s", "2 min 4 s". */
export function stretch(ms) {
  const size = Math.abs(ms);
  const sign = ms < 0 ? "−" : "";
  if (size === 0) return "0 s";
  if (size < 1) return `${sign}${Math.round(size * 1000)} µs`;
  if (size < 1000) return `${sign}${size < 10 ? size.toFixed(2).replace(/\.?0+$/, "") : Math.round(size)} ms`;
  if (size < 60_000) return `${sign}${(size / 1000).toFixed(size < 10_000 ? 2 : 1)} s`;
  const minutes = Math.floor(size / 60_000);
  if (minutes < 60) return `${sign}${minutes} min ${Math.floor((size % 60_000) / 1000)} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${sign}${hours} h ${minutes % 60} min` : `${sign}${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** From the start of a run, to the millisecond for an hour: neighbours in a list differ by less than their distance. */
export function since(ms) {
  if (ms <= 0) return stretch(ms);
  if (ms < 60_000 || ms >= 3_600_000) return `+${stretch(ms)}`;
  return `+${Math.floor(ms / 60_000)} min ${((ms % 60_000) / 1000).toFixed(3).replace(/\.?0+$/, "")} s`;
}

function ago(ms) {
  const size = Math.abs(ms);
  const steps = [[60_000, 1000, "s"], [3_600_000, 60_000, "min"], [172_800_000, 3_600_000, "h"]];
  const [, unit, word] = steps.find(([limit]) => size < limit) ?? [0, 86_400_000, "d"];
  const text = `${Math.floor(size / unit)} ${word}`;
  if (size < 1000) return "now";
  return ms < 0 ? `in ${text}` : `${text} ago`;
}

function shown(element, ms) {
  const from = element.dataset.from;
  if (isRelative()) return from ? since(ms - parse(from)) : ago(Date.now() - ms);
  const digits = digitsOf(element.dateTime);
  if (from) return day(ms) === day(parse(from)) ? clock(ms, digits) : `${day(ms)} ${clock(ms, digits)}`;
  const p = wall(ms);
  const year = p.year === wall(Date.now()).year ? "" : ` ${p.year}`;
  return `${day(ms)}${year} ${clock(ms, 0)} ${zoneLabel(ms)}`;
}

function show(element) {
  const ms = parse(element.dateTime);
  if (Number.isNaN(ms)) {
    element.dataset.shown = "";
    return;
  }
  const text = shown(element, ms);
  if (element.textContent !== text) element.textContent = text;
  if (element.dataset.shown !== chosen) {
    element.title = absolute(ms, digitsOf(element.dateTime));
    element.dataset.shown = chosen;
  }
}

/** Puts all times under `root` into the chosen zone, and the zone's name where a heading asks for it. */
export function showTimes(root = document) {
  for (const element of root.querySelectorAll("time[data-t]")) show(element);
  for (const element of root.querySelectorAll("[data-zone]")) element.textContent = isRelative() ? "" : ` ${zoneLabel()}`;
}

export function choose(next) {
  chosen = known(next) ?? "relative";
  keep("tz", chosen === "relative" ? null : chosen);
  setParams({ tz: chosen === "relative" ? null : chosen });
  reflect();
  showTimes();
  document.dispatchEvent(new CustomEvent("zone:change"));
}

/** Through the usual ones and the zone that was chosen last, if one was. */
export function chooseNext() {
  const zones = [...document.getElementById("tz")?.options ?? []].map((option) => option.value).filter((value) => value !== OTHER);
  const order = zones.length ? zones : ORDER;
  choose(order[(order.indexOf(chosen) + 1) % order.length]);
}

function reflect() {
  const select = document.getElementById("tz");
  if (!select) return;
  select.querySelector('[value="local"]').textContent = `Local (${HOME})`;
  if (![...select.options].some((option) => option.value === chosen)) {
    select.add(new Option(chosen.replaceAll("_", " "), chosen), select.querySelector(`[value="${OTHER}"]`));
  }
  select.value = chosen;
}

/** A dialog with all zones that the browser knows; a name is typed or picked, nothing unknown is taken. */
function askForZone() {
  const dialog = document.createElement("dialog");
  dialog.className = "zone";
  dialog.setAttribute("aria-label", "Time zone");
  const form = document.createElement("form");
  form.method = "dialog";
  const label = document.createElement("label");
  label.className = "field";
  label.textContent = "Time zone";
  const input = document.createElement("input");
  input.setAttribute("list", "zones");
  input.placeholder = "Europe/Berlin";
  input.autocomplete = "off";
  input.spellcheck = false;
  const zones = document.createElement("datalist");
  zones.id = "zones";
  zones.append(...(Intl.supportedValuesOf?.("timeZone") ?? []).map((name) => new Option(name, name)));
  const button = document.createElement("button");
  button.className = "btn primary";
  button.textContent = "Show times there";
  label.append(input);
  form.append(label, zones, button);
  dialog.append(form);
  document.body.append(dialog);
  input.addEventListener("input", () => input.setCustomValidity(""));
  form.addEventListener("submit", (event) => {
    const name = input.value.trim().replaceAll(" ", "_");
    if (known(name)) return choose(name);
    event.preventDefault();
    input.setCustomValidity("No zone has this name.");
    input.reportValidity();
  });
  dialog.addEventListener("close", () => (dialog.remove(), reflect()));
  dialog.showModal();
}

function tick() {
  let wait = 30_000;
  if (isRelative() && !document.hidden) {
    for (const element of document.querySelectorAll("time[data-t]:not([data-from])")) {
      show(element);
      if (/ s ago$|^now$|^in \d+ s$/.test(element.textContent)) wait = 1000;
    }
  }
  setTimeout(tick, wait);
}

export function startTimes() {
  if (chosen !== "relative" && document.getElementById("tz")) setParams({ tz: chosen });
  reflect();
  showTimes();
  document.getElementById("tz")?.addEventListener("change", ({ target }) => (target.value === OTHER ? askForZone() : choose(target.value)));
  document.addEventListener("visibilitychange", () => document.hidden || showTimes());
  document.addEventListener("fragment:shown", (event) => showTimes(event.target));
  setTimeout(tick, 1000);
}

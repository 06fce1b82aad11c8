// Two runs side by side: the picture, the list of pairs and the chosen pair, of one mind. `?at=` is the chosen pair.

import { param, setParams } from "./address.js";
import "./compare-strip.js";
import { bind } from "./keys.js";
import { startTrees } from "./tree.js";

const strip = () => document.getElementById("strip");
const walk = () => document.getElementById("walk");
const rowOf = (place) => document.getElementById(`p${place}`);

function at() {
  const given = param("at");
  return given === null || given === "" ? null : Number(given);
}

function address(changes) {
  const params = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null) params.delete(name);
    else params.set(name, value);
  }
  return `${location.pathname}?${params}`;
}

function mark(place) {
  const before = walk()?.querySelector("tr.is-selected");
  before?.classList.remove("is-selected");
  before?.querySelector("[aria-current]")?.removeAttribute("aria-current");
  const row = place === null ? null : rowOf(place);
  row?.classList.add("is-selected");
  row?.querySelector("a")?.setAttribute("aria-current", "true");
  return row;
}

/** Within its own box only: the page stays where it is. */
function reveal(row) {
  const box = row?.closest(".scroll");
  if (!box) return;
  const [top, bottom] = [row.offsetTop - 34, row.offsetTop + row.offsetHeight];
  if (top < box.scrollTop) box.scrollTop = top;
  else if (bottom > box.scrollTop + box.clientHeight) box.scrollTop = bottom - box.clientHeight;
}

function choose(place, { from = "list" } = {}) {
  setParams({ at: place, before: null, after: null });
  if (from !== "strip") strip()?.select(place);
  const row = mark(place);
  if (row) {
    reveal(row);
    window.htmx.ajax("GET", address({ at: place }), { target: "#pair", swap: "outerHTML", source: row });
  } else {
    window.htmx.ajax("GET", address({ at: place }), { target: "#walk", swap: "outerHTML", source: strip() });
  }
}

let walking = Promise.resolve();

/** One after the other, however fast the key is pressed. */
function toDifference(way) {
  walking = walking.then(async () => {
    const place = await strip()?.walk(way);
    if (place !== null && place !== undefined) choose(place);
  });
}

function step(by) {
  const rows = [...(walk()?.querySelectorAll("tr[data-place]") ?? [])];
  if (!rows.length) return false;
  const now = rows.findIndex((row) => row.classList.contains("is-selected"));
  const next = rows[now < 0 ? (by > 0 ? 0 : rows.length - 1) : now + by];
  if (next) choose(Number(next.dataset.place));
  return Boolean(next);
}

function show(only) {
  walk()?.querySelector(`[data-show="${only}"]`)?.click();
  return true;
}

const onStrip = (action) => () => {
  if (strip()) action(strip());
  return Boolean(strip());
};

bind("n", () => (toDifference("next"), true));
bind("p", () => (toDifference("previous"), true));
bind("j", () => step(1));
bind("k", () => step(-1));
bind("1", () => show(""));
bind("2", () => show("differences"));
bind("w", onStrip((one) => one.zoom(0.7)));
bind("s", onStrip((one) => one.zoom(1 / 0.7)));
bind("a", onStrip((one) => one.pan(-0.2)));
bind("d", onStrip((one) => one.pan(0.2)));
bind("f", onStrip((one) => one.fit()));

document.addEventListener("click", (event) => {
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.button) return;
  const walked = event.target.closest("[data-walk]");
  const tool = event.target.closest("[data-strip]");
  const jump = event.target.closest("a[data-place]");
  if (walked) {
    event.preventDefault();
    toDifference(walked.dataset.walk);
  } else if (jump) {
    event.preventDefault();
    choose(Number(jump.dataset.place));
    walk()?.scrollIntoView({ block: "nearest" });
  } else if (tool && strip()) {
    if (tool.dataset.strip === "in") strip().zoom(0.6);
    else if (tool.dataset.strip === "out") strip().zoom(1 / 0.6);
    else strip().fit();
  }
});

document.addEventListener("compare:select", (event) => choose(event.detail.place, { from: "strip" }));

/** A row's own link has asked for its pair already. */
document.body.addEventListener("htmx:beforeRequest", (event) => {
  const row = event.detail.elt.closest?.("tr[data-place]");
  if (!row || event.detail.elt.tagName !== "A") return;
  const place = Number(row.dataset.place);
  setParams({ at: place, before: null, after: null });
  mark(place);
  strip()?.select(place);
});

document.body.addEventListener("htmx:afterSettle", (event) => {
  const shown = event.detail.elt?.id;
  if (shown === "walk" || shown === "pair") reveal(mark(at()));
});

startTrees();
if (at() !== null) reveal(rowOf(at()));

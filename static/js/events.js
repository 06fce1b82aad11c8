// The event list: walked by keys, growing at its end, and always of one mind with the timeline. Which rows are in the
// document is up to event-rows.js. The selected event is `?seq=`; rows are links that work without any of this.

import { setParams } from "./address.js";
import { EventRows } from "./event-rows.js";
import { bind } from "./keys.js";
import { throughOf } from "./live.js";
import { parse } from "./times.js";

const LOAD_AFTER = 70; // ms; holding `j` down does not ask for every event it passes
const REFRESH_EVERY = 400; // ms between two questions while a run grows

const list = () => document.getElementById("events");
const pane = () => document.querySelector(".detail-pane");
const timeline = () => document.querySelector("open-timeline");
const sequenceOf = (row) => Number(row.dataset.seq);
const rowOf = (sequence) => document.getElementById(`e${sequence}`);
/** On a narrow screen the pane is a sheet over the lower part of the list. */
const isSheet = () => getComputedStyle(pane()).position === "fixed";

let selected = null;
let selectedPlace = null;
let loading;
let rows = null;
let refreshing = null;
let again = false;
let window_ = null; // the stretch that the timeline shows, [first, last] sequence
let coming = null; // another list that was asked for: { settled, settle }

function atOf(row) {
  const time = row?.querySelector("time");
  return time ? parse(time.dateTime) : null;
}

function mark() {
  const before = list()?.querySelector("tr.is-selected");
  const row = selected === null ? null : rowOf(selected);
  if (before === row) return row;
  before?.classList.remove("is-selected");
  before?.querySelector("[aria-current]")?.removeAttribute("aria-current");
  row?.classList.add("is-selected");
  row?.querySelector("a")?.setAttribute("aria-current", "true");
  return row;
}

/** The fragment of one event; the address of #0 is given, the last number in it is the sequence. */
const detailUrl = (sequence) => pane().dataset.eventUrl.replace(/0(?=\D*$)/, String(sequence));

function loadDetail(sequence) {
  clearTimeout(loading);
  loading = setTimeout(() => {
    window.htmx.ajax("GET", detailUrl(sequence), { target: "#detail", source: pane(), swap: "outerHTML" });
  }, LOAD_AFTER);
}

function query(changes) {
  const params = new URLSearchParams(location.search);
  for (const name of ["before", "after", "seq", "at", "n"]) params.delete(name);
  for (const [name, value] of Object.entries(changes)) params.set(name, value);
  return `${list().dataset.url}?${params}`;
}

function shown(all, { first, end }) {
  mark();
  for (const row of all) {
    const sequence = sequenceOf(row);
    row.classList.toggle("is-outside", Boolean(window_) && (sequence < window_[0] || sequence > window_[1]));
    if (!row.dataset.timed) row.dispatchEvent(new CustomEvent("fragment:shown", { bubbles: true }));
    row.dataset.timed = "";
  }
  const place = list()?.querySelector("[data-rows-place]");
  if (place) place.textContent = rows?.total ? `rows ${(first + 1).toLocaleString("en")}–${end.toLocaleString("en")}` : "";
  showCounts();
}

function showCounts() {
  if (!rows) return;
  const put = (name, count) => {
    const element = list()?.querySelector(`[data-rows-${name}]`);
    const text = count.toLocaleString("en");
    if (element && element.textContent !== text) element.textContent = text;
  };
  put("total", rows.total);
  put("stored", rows.stored);
}

export async function select(sequence, { at = null, from = "list", open = true } = {}) {
  selected = sequence;
  selectedPlace = null;
  setParams({ seq: sequence });
  let row = mark();
  if (from !== "timeline") timeline()?.select(sequence, at ?? atOf(row));
  if (open) document.body.classList.add("has-detail");
  loadDetail(sequence);
  const place = row ? Number(row.dataset.place) : await rows?.find(sequence);
  if (selected !== sequence || place === null || place === undefined) return;
  selectedPlace = place;
  rows.reveal(place);
  if (!row && from !== "timeline") timeline()?.select(sequence, atOf(mark()));
  row = mark();
  if (row && isSheet()) row.scrollIntoView({ block: "start" });
}

function deselect() {
  if (!document.body.classList.contains("has-detail") && selected === null) return;
  document.body.classList.remove("has-detail");
  const row = selected === null ? null : rowOf(selected);
  selected = selectedPlace = null;
  mark();
  clearTimeout(loading);
  setParams({ seq: null });
  timeline()?.select(null);
  row?.querySelector("a")?.focus({ preventScroll: true });
}

function listAsked({ detail }) {
  if (detail.target?.id !== "events" || coming) return;
  coming = {};
  coming.settled = new Promise((resolve) => (coming.settle = resolve));
}

function listCame() {
  coming?.settle();
  coming = null;
}

async function step(by) {
  // A key that follows on a filter acts on the list one asked for, not on the one that is about to go.
  await coming?.settled;
  if (!rows?.total) return;
  let place = by > 0 ? 0 : rows.total - 1;
  if (selected !== null) {
    const now = selectedPlace ?? (await rows.find(selected));
    place = now === null ? place : now + by;
  }
  const row = await rows.rowAt(place);
  if (row) select(sequenceOf(row), { at: atOf(row) });
}

/** A message may come while the list is being asked: ask again until it has all that was told. */
async function refresh() {
  if (refreshing) {
    again = true;
    return;
  }
  if (!rows) return reload();
  refreshing = true;
  const wasAtEnd = await rows.refresh();
  if (wasAtEnd && selected === null && timeline()?.isFollowing) rows.toEnd();
  setTimeout(() => {
    refreshing = null;
    const topic = document.body.dataset.topics.split(" ").find((one) => one.startsWith("run:"));
    if (!again && !(topic && rows && rows.last < throughOf(topic))) return;
    again = false;
    refresh();
  }, REFRESH_EVERY);
}

/** An empty list has no rows to add to; the first ones come with the list itself. */
function reload() {
  return window.htmx.ajax("GET", query({}), { target: "#events", source: document.querySelector(".list-pane"), swap: "outerHTML" });
}

function begin() {
  rows?.disconnect();
  const scroller = list()?.querySelector(".scroll");
  rows = scroller ? new EventRows(scroller, { query, onShown: shown }) : null;
  rows?.render();
  showCounts();
}

function afterSettle({ detail }) {
  if (detail.target?.id !== "events" || list() === settledFor) return;
  settledFor = list();
  // The address that came with the answer is as old as the question.
  setParams({ seq: selected });
  begin();
  listCame();
  document.dispatchEvent(new CustomEvent("filter:change"));
}

let settledFor = null;

function clicked(event) {
  if (event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  const link = event.target.closest("[data-seq-link]");
  if (link) {
    event.preventDefault();
    return select(Number(link.dataset.seqLink));
  }
  if (event.target.closest("[data-detail-close]")) return deselect();
  const row = event.target.closest("#events tr[data-seq]");
  if (!row || getSelection()?.toString()) return;
  event.preventDefault();
  select(sequenceOf(row), { at: atOf(row) });
}

function filterByNode(node) {
  const field = document.querySelector(".list-pane select[name=node]");
  if (!field) return;
  if (field.value === node) field.value = "";
  else {
    if (![...field.options].some((option) => option.value === node)) field.add(new Option(node, node));
    field.value = node;
  }
  field.dispatchEvent(new Event("change", { bubbles: true }));
}

function show(value) {
  const field = document.querySelector(`.list-pane input[name=show][value="${value}"]`);
  if (!field || field.checked) return Boolean(field);
  field.checked = true;
  field.dispatchEvent(new Event("change", { bubbles: true }));
  return true;
}

function openDetail() {
  if (selected === null) return step(1);
  document.body.classList.add("has-detail");
  const target = document.querySelector("#detail [role=treeitem][tabindex='0']") ?? document.querySelector("#detail a, #detail button");
  target?.focus();
}

function onEnter(event) {
  if (event.target.closest("a, button, summary, [role=treeitem]")) return false;
  openDetail();
  return true;
}

/** The list goes where the timeline goes, unless what is selected is in view there. */
async function followWindow({ detail }) {
  window_ = detail.isFull ? null : [detail.from, detail.to];
  if (!rows) return;
  for (const row of list().querySelectorAll("tr[data-seq]")) {
    row.classList.toggle("is-outside", Boolean(window_) && (sequenceOf(row) < detail.from || sequenceOf(row) > detail.to));
  }
  const isSelectedIn = selected !== null && selected >= detail.from && selected <= detail.to;
  if (detail.isFull || isSelectedIn || isSheet()) return;
  const place = await rows.find(Math.ceil(detail.from));
  if (place !== null && window_?.[0] === detail.from) rows.reveal(place);
}

export function startEvents() {
  if (!document.querySelector(".list-pane")) return;
  const start = list()?.querySelector("tr.is-selected");
  if (start) selected = sequenceOf(start);
  begin();
  if (start) {
    selectedPlace = Number(start.dataset.place);
    rows.reveal(selectedPlace);
    document.addEventListener("timeline:ready", () => selectedPlace !== null && rows?.reveal(selectedPlace), { once: true });
  }
  bind("j", () => (step(1), true));
  bind("k", () => (step(-1), true));
  bind("Enter", onEnter);
  bind("Escape", () => timeline()?.escape() || deselect());
  bind("1", () => show(""));
  bind("2", () => show("relevant"));
  bind("3", () => show("memory"));
  bind("4", () => show("errors"));
  document.addEventListener("click", clicked);
  document.addEventListener("timeline:select", ({ detail }) => select(detail.sequence, { at: detail.at, from: "timeline" }));
  document.addEventListener("timeline:node", ({ detail }) => filterByNode(detail.node));
  document.addEventListener("timeline:window", followWindow);
  document.body.addEventListener("htmx:beforeRequest", listAsked);
  document.body.addEventListener("htmx:afterRequest", ({ detail }) => detail.target?.id === "events" && !detail.successful && listCame());
  document.body.addEventListener("htmx:afterSettle", afterSettle);
  document.body.addEventListener("live:run", refresh);
}

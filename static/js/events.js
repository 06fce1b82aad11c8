// The event list: walked by keys, read page by page, growing at its end, and always of one mind with the timeline.
// The selected event is `?seq=`; rows are links that work without any of this.

import { setParams } from "./address.js";
import { bind } from "./keys.js";
import { throughOf } from "./live.js";
import { parse } from "./times.js";

const MOST_ROWS = 1600; // then the far end is let go of and offered again
const KEEP_ROWS = 1000;
const LOAD_AFTER = 70; // ms; holding `j` down does not ask for every event it passes

const list = () => document.getElementById("events");
const body = () => list()?.querySelector("tbody");
const scroller = () => list()?.querySelector(".scroll");
const rows = () => [...(body()?.querySelectorAll("tr[data-seq]") ?? [])];
const rowOf = (sequence) => document.getElementById(`e${sequence}`);
const sequenceOf = (row) => Number(row.dataset.seq);
const pane = () => document.querySelector(".detail-pane");
/** On a narrow screen the pane is a sheet over the lower part of the list. */
const isSheet = () => getComputedStyle(pane()).position === "fixed";

let selected = null;
let loading;
let atEnd = true;
let heightBefore = null;
let settling = false;

const timeline = () => document.querySelector("open-timeline");

function atOf(row) {
  const time = row?.querySelector("time");
  return time ? parse(time.dateTime) : null;
}

function mark(sequence) {
  const before = body()?.querySelector("tr.is-selected");
  before?.classList.remove("is-selected");
  before?.querySelector("[aria-current]")?.removeAttribute("aria-current");
  const row = rowOf(sequence);
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
  for (const name of ["before", "after", "seq"]) params.delete(name);
  for (const [name, value] of Object.entries(changes)) params.set(name, value);
  return `${list().dataset.url}?${params}`;
}

function loadAround(sequence) {
  return window.htmx.ajax("GET", query({ seq: sequence }), { target: "#events", source: document.querySelector(".list-pane"), swap: "outerHTML" });
}

function intoView(row) {
  const box = scroller();
  if (!row || !box) return;
  if (isSheet()) return row.scrollIntoView({ block: "start" });
  if (box.scrollHeight <= box.clientHeight) return row.scrollIntoView({ block: "nearest" });
  const [top, bottom] = [row.offsetTop, row.offsetTop + row.offsetHeight];
  const head = box.querySelector("thead")?.offsetHeight ?? 0;
  if (top < box.scrollTop + head + row.offsetHeight) box.scrollTop = top - head - row.offsetHeight * 2;
  else if (bottom > box.scrollTop + box.clientHeight - row.offsetHeight) box.scrollTop = bottom - box.clientHeight + row.offsetHeight * 2;
}

export async function select(sequence, { at = null, from = "list", open = true } = {}) {
  selected = sequence;
  setParams({ seq: sequence });
  let row = mark(sequence);
  if (from !== "timeline") timeline()?.select(sequence, at ?? atOf(row));
  if (open) document.body.classList.add("has-detail");
  loadDetail(sequence);
  if (!row) {
    await loadAround(sequence);
    row = mark(sequence);
    if (row && from !== "timeline") timeline()?.select(sequence, atOf(row));
  }
  intoView(row);
}

function deselect() {
  if (!document.body.classList.contains("has-detail") && selected === null) return;
  document.body.classList.remove("has-detail");
  const row = selected === null ? null : rowOf(selected);
  body()?.querySelector("tr.is-selected")?.classList.remove("is-selected");
  row?.querySelector("a")?.removeAttribute("aria-current");
  selected = null;
  clearTimeout(loading);
  setParams({ seq: null });
  timeline()?.select(null);
  row?.querySelector("a")?.focus({ preventScroll: true });
}

function neighbour(by) {
  const all = rows();
  if (!all.length) return null;
  if (selected === null) return by > 0 ? all[0] : all.at(-1);
  const at = all.findIndex((row) => sequenceOf(row) === selected);
  if (at >= 0) return all[at + by] ?? null;
  return by > 0 ? all.find((row) => sequenceOf(row) > selected) : all.findLast((row) => sequenceOf(row) < selected);
}

async function step(by) {
  let row = neighbour(by);
  if (!row) {
    const edge = document.getElementById(by > 0 ? "later" : "earlier");
    if (!edge?.classList.contains("more")) return;
    await more(edge);
    row = neighbour(by);
  }
  if (row) select(sequenceOf(row));
}

const more = (edge) => window.htmx.ajax("GET", edge.getAttribute("hx-get"), { source: edge, target: edge, swap: "outerHTML" });

function showCounts() {
  const shown = list()?.querySelector("[data-rows-shown]");
  if (!shown) return;
  shown.textContent = rows().length.toLocaleString("en");
  const matching = document.getElementById("later")?.dataset.matching;
  const total = list().querySelector("[data-rows-total]");
  if (matching && total) total.textContent = Number(matching).toLocaleString("en");
}

function edgeRow(id, parameter, sequence, words) {
  const row = document.createElement("tr");
  const cell = row.insertCell();
  const link = document.createElement("a");
  cell.colSpan = 5;
  row.id = id;
  row.className = "more";
  link.href = query({ [parameter]: sequence });
  link.textContent = `${words} #${sequence}`;
  cell.append(link);
  row.setAttribute("hx-get", link.href);
  row.setAttribute("hx-trigger", "intersect once, click");
  row.setAttribute("hx-swap", "outerHTML");
  return row;
}

/** Ten thousand rows would make the page slow; those farthest away can be had again. */
function trim(grewAt) {
  const all = rows();
  if (all.length <= MOST_ROWS) return;
  const box = scroller();
  const height = box.scrollHeight;
  if (grewAt === "later") {
    for (const row of all.slice(0, all.length - KEEP_ROWS)) row.remove();
    document.getElementById("earlier")?.remove();
    const first = sequenceOf(rows()[0]);
    const edge = edgeRow("earlier", "before", first, "Earlier events, before");
    body().prepend(edge);
    window.htmx.process(edge);
    box.scrollTop -= height - box.scrollHeight;
  } else {
    for (const row of all.slice(KEEP_ROWS)) row.remove();
    document.getElementById("later")?.remove();
    const last = sequenceOf(rows().at(-1));
    const edge = edgeRow("later", "after", last, "Later events, after");
    edge.dataset.matching = list().querySelector("[data-rows-total]")?.textContent.replaceAll(",", "") ?? "";
    body().append(edge);
    window.htmx.process(edge);
  }
}

/** A message may have come while the tail was being asked: ask again until it has all that was told. */
function askAgain() {
  const tail = document.getElementById("later");
  if (!tail?.classList.contains("tail")) return;
  const topic = document.body.dataset.topics.split(" ").find((one) => one.startsWith("run:"));
  if (topic && Number(tail.dataset.last || -1) < throughOf(topic)) setTimeout(() => window.htmx.trigger(tail, "again"), 250);
}

function beforeSwap({ detail }) {
  const box = scroller();
  if (!box) return;
  const id = detail.target?.id;
  atEnd = box.scrollTop + box.clientHeight > box.scrollHeight - 60;
  heightBefore = id === "earlier" ? [box.scrollHeight, box.scrollTop] : null;
}

/** htmx tells of every row of an answer; what concerns all of them is done once. */
function afterSettle({ detail }) {
  const id = detail.target?.id;
  if (!["events", "earlier", "later"].includes(id)) return;
  const isTail = id === "later" && detail.target.classList.contains("tail");
  if (isTail && detail.elt.matches("tr[data-seq]")) detail.elt.classList.add("is-new");
  if (settling) return;
  settling = true;
  queueMicrotask(() => {
    settling = false;
    settled(id, isTail);
  });
}

function settled(id, isTail) {
  const box = scroller();
  if (!box) return;
  if (id === "earlier" && heightBefore) {
    box.scrollTop = heightBefore[1] + box.scrollHeight - heightBefore[0];
    heightBefore = null;
  }
  if (isTail && atEnd && timeline()?.isFollowing && selected === null) box.scrollTop = box.scrollHeight;
  if (selected !== null) mark(selected);
  if (id !== "events") trim(id);
  showCounts();
  askAgain();
}

function clicked(event) {
  if (event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  const link = event.target.closest("[data-seq-link]");
  if (link) {
    event.preventDefault();
    return select(Number(link.dataset.seqLink));
  }
  if (event.target.closest("[data-detail-close]")) return deselect();
  const edge = event.target.closest("tr.more");
  if (edge) return event.preventDefault();
  const row = event.target.closest("#events tr[data-seq]");
  if (!row || getSelection()?.toString()) return;
  event.preventDefault();
  select(sequenceOf(row));
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

export function startEvents() {
  if (!document.querySelector(".list-pane")) return;
  const start = body()?.querySelector("tr.is-selected");
  if (start) selected = sequenceOf(start);
  intoView(start);
  document.addEventListener("timeline:ready", () => selected !== null && intoView(rowOf(selected)), { once: true });
  bind("j", () => (step(1), true));
  bind("k", () => (step(-1), true));
  bind("Enter", onEnter);
  bind("Escape", () => timeline()?.escape() || deselect());
  document.addEventListener("click", clicked);
  document.addEventListener("timeline:select", ({ detail }) => select(detail.sequence, { at: detail.at, from: "timeline" }));
  document.addEventListener("timeline:node", ({ detail }) => filterByNode(detail.node));
  const node = document.querySelector(".list-pane select[name=node]");
  node?.addEventListener("change", () => timeline() && (timeline().filter = node.value));
  document.body.addEventListener("htmx:beforeSwap", beforeSwap);
  document.body.addEventListener("htmx:afterSettle", afterSettle);
  askAgain();
}

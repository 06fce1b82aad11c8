// The state behind an event: a tab beside the event on the run's page, and a page of its own. A scrubber goes through
// the run; whatever is asked last is shown.

import { param, setParams } from "./address.js";
import { bind } from "./keys.js";
import { startTrees } from "./tree.js";

const LOAD_AFTER = 60; // ms; a scrubber passes many events

const pane = () => document.getElementById("state");
const detail = () => document.getElementById("detail");
const isTab = () => Boolean(detail());
let loading;
let scrubbing = false;

function stateUrl(at, against) {
  const url = new URL(pane().dataset.stateUrl, location.href);
  url.searchParams.set("at", at);
  if (against !== null && against !== "") url.searchParams.set("against", against);
  return url.pathname + url.search;
}

function load(at, against = param("against")) {
  clearTimeout(loading);
  loading = setTimeout(() => {
    window.htmx.ajax("GET", stateUrl(at, against), { target: "#state", swap: "outerHTML", source: pane() });
  }, LOAD_AFTER);
}

function press(name) {
  for (const tab of detail().querySelectorAll("[data-tab]")) {
    tab.setAttribute(tab.tagName === "BUTTON" ? "aria-pressed" : "aria-current", String(tab.dataset.tab === name));
  }
}

/** Shows the state, or the event again. What is shown stays as the selection goes on. */
function turn(on) {
  if (!detail() || !pane()) return false;
  setParams({ tab: on ? "state" : null, ...(on ? {} : { against: null }) });
  show(on);
  return true;
}

function show(on) {
  detail().classList.toggle("shows-state", on);
  pane().hidden = !on;
  press(on ? "state" : "event");
  if (on && pane().dataset.loaded !== "true") load(pane().dataset.at);
}

/** The timeline goes along; the list and the event follow once the scrubber is let go of. */
function scrub(input) {
  document.getElementById("state-at").value = input.value;
  if (isTab()) document.querySelector("open-timeline")?.select(Number(input.value));
  load(input.value);
}

async function settle(input) {
  if (!isTab()) return setParams({ at: input.value });
  scrubbing = document.activeElement === input;
  const { select } = await import("./events.js");
  select(Number(input.value), { from: "list" });
}

document.addEventListener("input", (event) => {
  if (event.target.id === "scrub") scrub(event.target);
});

document.addEventListener("change", (event) => {
  if (event.target.id === "scrub") settle(event.target);
});

document.addEventListener("submit", (event) => {
  const form = event.target.closest?.("form.scrub");
  if (!form) return;
  event.preventDefault();
  const { at, against } = form.elements;
  setParams(isTab() ? { against: against.value || null } : { at: at.value, against: against.value || null });
  load(at.value, against.value);
});

document.addEventListener("click", (event) => {
  const tab = event.target.closest?.("[data-tab]");
  if (!tab || !detail()?.contains(tab) || event.metaKey || event.ctrlKey || event.shiftKey) return;
  event.preventDefault();
  turn(tab.dataset.tab === "state");
});

document.body.addEventListener("htmx:afterSettle", (event) => {
  const shown = event.detail.elt?.id;
  if (shown === "detail" && pane() && param("tab") === "state") show(true);
  if (shown !== "state") return;
  if (isTab()) {
    pane().hidden = !detail().classList.contains("shows-state");
    if (scrubbing) document.getElementById("scrub")?.focus({ preventScroll: true });
    scrubbing = false;
  }
});

bind("v", () => isTab() && turn(!detail().classList.contains("shows-state")));

if (!isTab()) startTrees(); // the run's page grows its own
if (isTab() && pane() && param("tab") === "state") show(true);

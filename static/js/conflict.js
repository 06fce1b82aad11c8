// The conflict queue and a conflict's page: deciding by keyboard, and what others do meanwhile.

import { bind } from "./keys.js";
import { say } from "./copy.js";

const form = () => document.getElementById("decide");
const option = (key) => form()?.querySelector(`input[data-key="${CSS.escape(key)}"]`);

function follow(selector) {
  const link = document.querySelector(selector);
  if (link) location.assign(link.href);
  return Boolean(link);
}

/** Chooses an outcome, and goes to the field that it needs first. */
function choose(key) {
  const chosen = option(key);
  if (!chosen) return false;
  chosen.checked = true;
  chosen.dispatchEvent(new Event("change", { bubbles: true }));
  if (key === "e") document.getElementById("value")?.focus();
  if (key === "b") form().querySelector(".more-both input")?.focus();
  return true;
}

function submit() {
  if (!form()?.querySelector('input[name="outcome"]:checked')) return false;
  // The same as a click, so that what has been sent is not sent twice.
  document.getElementById("submit").click();
  return true;
}

function takeBack() {
  const undo = document.querySelector("form[data-undo]");
  undo?.requestSubmit();
  return Boolean(undo);
}

function startDeciding() {
  for (const key of "123456789bne") bind(key, () => choose(key));
  bind("Enter", (event) => (event.target.closest("a, button, summary, label") ? false : submit()));
  bind("r", () => {
    document.getElementById("reason")?.focus();
    return true;
  });
  bind("u", takeBack);
  bind("s", () => follow("[data-later]"));
  bind("j", () => follow("#older"));
  bind("k", () => follow("#newer"));
  bind("Escape", () => follow("#to-queue"));
  form()?.addEventListener("submit", () => {
    const button = document.getElementById("submit");
    // After the form has been read: a disabled button is no part of it.
    setTimeout(() => (button.disabled = true));
  });
  window.addEventListener("pageshow", () => {
    const button = document.getElementById("submit");
    if (button) button.disabled = false;
  });
}

/** Somebody else did something to it: what is written here stays, and is not sent to where it no longer fits. */
function startWatching() {
  document.body.addEventListener("htmx:afterSwap", (event) => {
    if (event.detail.target.id !== "facts") return;
    const seen = form()?.elements.revision?.value;
    const now = document.getElementById("facts").dataset.revision;
    document.getElementById("moved").hidden = !seen || seen === now;
  });
}

/** Rows that another person worked off leave the queue with a word. */
function startQueue() {
  let before = new Map();
  const rows = () => new Map([...document.querySelectorAll("#rows tr[data-row]")].map((row) => [row.id, row.dataset.name]));
  document.body.addEventListener("htmx:beforeSwap", (event) => {
    if (event.detail.target.id === "rows") before = event.detail.requestConfig.elt.matches("form") ? new Map() : rows();
  });
  document.body.addEventListener("htmx:afterSwap", (event) => {
    if (event.detail.target.id !== "rows") return;
    const now = rows();
    const gone = [...before].filter(([id]) => !now.has(id)).map(([, name]) => name);
    if (gone.length === 1) say(`${gone[0]} left the queue: it was settled.`);
    else if (gone.length) say(`${gone.length} conflicts left the queue: they were settled.`);
  });
}

if (form()) {
  startDeciding();
  startWatching();
} else if (document.querySelector("form[data-undo]")) {
  startDeciding();
} else startQueue();

// Keys. A page binds its own over the ones that hold everywhere.

import { closeMenus, showHelp } from "./look.js";
import { chooseNext } from "./times.js";

const bound = new Map();
const PLACES = { r: "runs", l: "ledger", c: "claims", x: "conflicts", h: "hosts", i: "incidents", u: "upload", t: "home" };
let leading = -Infinity; // when g was pressed

export function bind(key, action) {
  bound.set(key, action);
}

const FIELDS = "textarea, select, input:not([type=radio], [type=checkbox])";
const isTyping = (target) =>
  target.isContentEditable || target.matches?.(FIELDS) || target.closest?.("dialog[open]");

function go(key) {
  const tenant = document.body.dataset.tenant;
  const place = PLACES[key];
  if (!tenant || !place) return;
  const link =
    place === "home"
      ? document.querySelector(".bar .mark")
      : [...document.querySelectorAll(".bar nav a")].find((a) => a.pathname.endsWith(`/${place}`));
  if (link) location.assign(link.href);
}

/** One thing at a time: a dialog closes itself, then a menu, then a field is left, then the page decides. */
function escape(event) {
  if (document.querySelector("dialog[open], :popover-open") || closeMenus()) return;
  if (!isTyping(event.target)) bound.get("Escape")?.(event);
  else if (event.target.type !== "search" || !event.target.value) event.target.blur();
}

function search() {
  const field = document.getElementById("q");
  field?.focus();
  field?.select();
  return Boolean(field);
}

/** Moves along the rows of a list by focusing their links. */
function step(by) {
  const links = [...document.querySelectorAll("main tr[data-row] a[id$=-link]")];
  const at = links.indexOf(document.activeElement);
  const next = links[at < 0 ? (by > 0 ? 0 : links.length - 1) : at + by];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
  return Boolean(next);
}

function pressed(event) {
  if (event.key === "Escape") return escape(event);
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
  if (event.timeStamp - leading < 1200 && PLACES[event.key]) {
    leading = -Infinity;
    event.preventDefault();
    return go(event.key);
  }
  leading = event.key === "g" ? event.timeStamp : -Infinity;
  const action = bound.get(event.key);
  if (action && action(event) !== false) event.preventDefault();
}

export function startKeys() {
  bind("?", () => (showHelp(), true));
  bind("/", search);
  bind("t", () => (chooseNext(), true));
  bind("j", () => step(1));
  bind("k", () => step(-1));
  document.addEventListener("keydown", pressed);
}

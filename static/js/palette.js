// The command palette: Ctrl-K (Cmd-K) opens it, letters narrow it, the arrows choose, Enter goes there.
// What is found is asked of the server; this only walks through it.

const dialog = document.getElementById("palette");
const field = document.getElementById("find-q");

const list = () => document.getElementById("find-list");
const options = () => [...list().querySelectorAll("[role=option]")];
const chosen = () => list().querySelector("[aria-selected=true]");
/** What is shown answers what is typed: a key that came before the answer waits for it. */
const isAnswered = () => list().dataset.q === field.value.trim();
let waiting = null; // what Enter asked for

function choose(option, { scroll = true } = {}) {
  chosen()?.setAttribute("aria-selected", "false");
  if (option) {
    option.setAttribute("aria-selected", "true");
    if (scroll) option.scrollIntoView({ block: "nearest" });
    field.setAttribute("aria-activedescendant", option.id);
  } else field.removeAttribute("aria-activedescendant");
}

function step(by) {
  const all = options();
  const at = all.indexOf(chosen());
  choose(all[(at + by + all.length) % all.length]);
}

function go(option, { tab = false } = {}) {
  const href = option?.dataset.href;
  if (!href) return;
  dialog.close();
  if (tab) window.open(href, "_blank", "noopener");
  else location.assign(href);
}

export function showPalette() {
  if (!dialog || dialog.open || document.querySelector("dialog[open]")) return;
  waiting = null;
  dialog.showModal();
  field.select();
  window.htmx.trigger(field, "palette:open");
}

const MOVES = {
  ArrowDown: () => step(1),
  ArrowUp: () => step(-1),
  PageDown: () => choose(options().at(-1)),
  PageUp: () => choose(options()[0]),
};

function pressed(event) {
  if (event.isComposing) return;
  if (MOVES[event.key] && options().length) {
    event.preventDefault();
    MOVES[event.key]();
  } else if (event.key === "Enter") {
    event.preventDefault();
    enter({ tab: event.ctrlKey || event.metaKey });
  }
}

function enter(how) {
  if (isAnswered()) go(chosen(), how);
  else waiting = how;
}

function shown() {
  const total = Number(list().dataset.total ?? 0);
  field.setAttribute("aria-expanded", String(total > 0));
  document.getElementById("find-count").textContent = total ? `${total} place${total === 1 ? "" : "s"}` : "Nothing found";
  choose(options()[0]);
  if (waiting && isAnswered()) {
    go(chosen(), waiting);
    waiting = null;
  }
}

/** The run whose page this is, as its live topic names it. */
function here() {
  const topic = document.body.dataset.topics?.split(" ").find((one) => one.startsWith("run:"));
  return topic?.slice("run:".length) ?? "";
}

function start() {
  document.addEventListener("keydown", (event) => {
    if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
    event.preventDefault();
    if (dialog.open) dialog.close();
    else showPalette();
  });
  document.addEventListener("click", (event) => event.target.closest?.("[data-palette]") && showPalette());
  document.body.addEventListener("htmx:configRequest", ({ detail }) => {
    if (detail.elt === field && here()) detail.parameters.at = here();
  });
  document.body.addEventListener("htmx:afterSwap", ({ detail }) => detail.requestConfig?.elt === field && shown());
  field.addEventListener("keydown", pressed);
  field.addEventListener("input", () => (waiting = null));
  dialog.addEventListener("click", (event) => {
    const option = event.target.closest("[role=option]");
    if (option) go(option, { tab: event.ctrlKey || event.metaKey });
  });
  dialog.addEventListener("mousemove", (event) => {
    const option = event.target.closest("[role=option]");
    if (option && option !== chosen()) choose(option, { scroll: false });
  });
}

if (dialog) start();

// What htmx leaves to us: regions that failed say so and can be asked again, rows that came stand out once,
// an answer that changes nothing changes nothing, and filters keep the address short.

const answers = new Map(); // id of a region → the answer it shows

function region(target) {
  return target?.closest?.(".rows, .panel, .head") ?? target;
}

function clearFailure(target) {
  region(target)?.querySelector(":scope > .failed")?.remove();
}

function reason(xhr) {
  if (!xhr?.status) return "The server did not answer.";
  if (xhr.status === 404) return "It is no longer there (404).";
  if (xhr.status === 403) return "You may not see this (403).";
  if (xhr.status === 429) return "Too many requests (429).";
  return `The server answered with an error (${xhr.status}).`;
}

function showFailure(event) {
  const { elt, target, xhr, requestConfig } = event.detail;
  const place = region(target ?? elt);
  if (!place?.isConnected || place.closest(".bar")) return; // the bar has no room to say so
  clearFailure(place);
  const box = document.createElement("div");
  box.className = "failed";
  box.setAttribute("role", "alert");
  const text = document.createElement("span");
  text.textContent = `Could not load this part. ${reason(xhr)}`;
  const again = document.createElement("button");
  again.type = "button";
  again.className = "btn";
  again.textContent = "Try again";
  again.addEventListener("click", () => {
    box.remove();
    const path = requestConfig?.path ?? location.pathname;
    const verb = requestConfig?.verb ?? "get";
    const swap = elt.getAttribute?.("hx-swap") ?? target?.getAttribute?.("hx-swap") ?? "outerHTML";
    window.htmx.ajax(verb, path, { source: elt.isConnected ? elt : target, target, swap, values: requestConfig?.parameters });
  });
  box.append(text, again);
  place.prepend(box);
}

function isLogin(xhr) {
  const login = document.body.dataset.login;
  return login && xhr?.responseURL && new URL(xhr.responseURL).pathname === login && location.pathname !== login;
}

function goToLogin() {
  location.assign(`${document.body.dataset.login}?next=${encodeURIComponent(location.pathname + location.search)}`);
}

/** A live region is asked again and again; it is swapped only when its answer differs. */
function isNothingNew({ target, xhr }) {
  if (!target.id) return false;
  const same = target.hasAttribute("hx-get") && answers.get(target.id) === xhr.responseText;
  answers.set(target.id, xhr.responseText);
  return same;
}

function beforeSwap(event) {
  if (isLogin(event.detail.xhr)) {
    event.detail.shouldSwap = false;
    goToLogin();
  } else if (event.detail.shouldSwap && !event.detail.isError) {
    clearFailure(event.detail.target);
    if (isNothingNew(event.detail)) event.detail.shouldSwap = false;
  }
}

const rowIds = (root) => new Set([...root.querySelectorAll("tr[data-row]")].map((row) => row.id));

function markNewRows(root, before) {
  if (!before.size) return;
  for (const row of root.querySelectorAll("tr[data-row]")) if (!before.has(row.id)) row.classList.add("is-new");
}

function afterSettle(event) {
  const target = event.detail.elt?.isConnected ? event.detail.elt : document.body;
  target.dispatchEvent(new CustomEvent("fragment:shown", { bubbles: true }));
}

/** A filter form leaves out what is empty and keeps what is not its own: selection, window, zone. */
function tidy(event) {
  const form = event.detail.elt;
  if (!form.matches?.("form[data-tidy]")) return;
  const parameters = event.detail.parameters;
  for (const name of Object.keys(parameters)) if (parameters[name] === "") delete parameters[name];
  const now = new URLSearchParams(location.search);
  for (const name of `tz ${form.dataset.keep ?? ""}`.split(" ")) {
    if (name && now.has(name) && !(name in parameters)) parameters[name] = now.getAll(name).length > 1 ? now.getAll(name) : now.get(name);
  }
  for (const field of form.elements) if (field.name) field.classList.toggle("is-set", Boolean(field.value) && field.type !== "search");
}

export function startFragments() {
  const body = document.body;
  let before = new Set();
  body.addEventListener("htmx:beforeSwap", (event) => {
    beforeSwap(event);
    before = event.detail.requestConfig?.elt?.matches("form") ? new Set() : rowIds(event.detail.target);
  });
  body.addEventListener("htmx:afterSwap", (event) => markNewRows(event.detail.elt, before));
  body.addEventListener("htmx:afterSettle", afterSettle);
  body.addEventListener("htmx:configRequest", tidy);
  for (const name of ["htmx:responseError", "htmx:sendError", "htmx:timeout"]) body.addEventListener(name, showFailure);
}

// A payload as a tree that keys can walk. What is shown is the text as it came (see json-scan.js): no number is
// ever converted. Branches are read when they are opened and drawn in portions, so neither size nor depth hurts.

import { binaryIn } from "./binary.js";
import { copyText } from "./copy.js";
import { codeOf, escapeOf, hiddenIn } from "./hidden.js";
import { decode, members, readValue } from "./json-scan.js";

const PORTION = 200; // members drawn at once
const LONG = 480; // characters of a string before it is clamped
const LARGE = 4096; // characters of a branch whose size is told
const OPEN_AT_FIRST = 120; // rows that are opened without being asked for
const OPEN_ON_REQUEST = 4000;
const DEEPEST_ON_REQUEST = 200;
const BIGGEST_TREE = 8_000_000; // characters; beyond it the text stays text
// Markers inside of a string: a secret that the host took out, content that the intake withheld.
const MARKERS = /\[REDACTED(?::([^\]\s]{1,200}))?\]|\[quarantined sha256:([0-9a-f]{64}) bytes:(\d{1,20})\]/g;

const nodeOf = new WeakMap(); // treeitem element → {text, value, path, depth}

function el(name, className, text) {
  const element = document.createElement(name);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

const bytes = (size) => {
  if (size < 1024) return `${size} B`;
  return size < 1048576 ? `${(size / 1024).toFixed(1)} KiB` : `${(size / 1048576).toFixed(1)} MiB`;
};

/** Text with what hides made visible. In prose a line break also breaks the line. */
function appendVisible(parent, text, { prose = false } = {}) {
  let at = 0;
  for (const { index, char } of hiddenIn(text)) {
    if (index > at) parent.append(text.slice(at, index));
    const mark = el("span", "esc", escapeOf(char));
    mark.title = codeOf(char);
    parent.append(mark);
    if (prose && char === "\n") parent.append("\n");
    at = index + char.length;
  }
  parent.append(text.slice(at));
}

function redactedPill(name) {
  const pill = el("span", "pill redacted");
  pill.title = "The host replaced a secret by this marker.";
  appendVisible(pill, `redacted${name ? ` ${name}` : ""}`);
  return pill;
}

function withheldPill(sum, length) {
  const pill = el("span", "pill fail withheld");
  pill.textContent = ["withheld", length && bytes(Number(length)), sum && `sha256 ${sum.slice(0, 8)}…`].filter(Boolean).join(" · ");
  pill.title = `Content that the protocol allows no event to carry. It was replaced on the way in${sum ? `; its SHA-256 is ${sum}` : ""}.`;
  return pill;
}

function appendMarked(parent, text, options) {
  let at = 0;
  for (const match of text.matchAll(MARKERS)) {
    appendVisible(parent, text.slice(at, match.index), options);
    parent.append(match[2] ? withheldPill(match[2], match[3]) : redactedPill(match[1]));
    at = match.index + match[0].length;
  }
  appendVisible(parent, text.slice(at), options);
}

/** Bytes are told, not painted: what they look like, how many they are, and, when asked for, their text. */
function binaryValue(found, text, cut) {
  const pill = el("span", "pill binary");
  pill.append([found.is, bytes(found.size), cut && "cut here"].filter(Boolean).join(" · "));
  pill.title = found.why;
  const more = el("button", "link", "show its text");
  more.type = "button";
  more.tabIndex = -1;
  more.addEventListener("click", (event) => {
    event.stopPropagation();
    more.replaceWith(...textValue(text, cut));
  });
  return [pill, more];
}

function stringValue(literal, cut) {
  const text = decode(literal);
  const found = binaryIn(text);
  return found ? binaryValue(found, text, cut) : textValue(text, cut);
}

const sizeOf = (text) => new Blob([text]).size;

function textValue(text, cut) {
  const box = el("bdi", "s");
  const fill = (whole) => {
    box.replaceChildren('"');
    appendMarked(box, whole ? text : text.slice(0, LONG - 80), { prose: whole });
    box.append(whole ? (cut ? " … cut here" : '"') : "…");
    box.classList.toggle("whole", whole && text.length > 80);
  };
  if (text.length <= LONG) {
    fill(true);
    return [box];
  }
  fill(false);
  const more = el("button", "link", `show all ${text.length.toLocaleString("en")} characters, ${bytes(sizeOf(text))}`);
  more.type = "button";
  more.tabIndex = -1;
  more.addEventListener("click", (event) => {
    event.stopPropagation();
    fill(true);
    more.remove();
  });
  return [box, more];
}

/** What the intake put in the place of content that must not be here. */
function withheld(text, value) {
  if (value.kind !== "object" || value.end - value.start > 2000) return null;
  const source = text.slice(value.start, value.end);
  if (!/^\{\s*"\$quarantined"\s*:/.test(source)) return null;
  const sum = /"(?:sha256:)?([0-9a-f]{64})"/i.exec(source)?.[1];
  const length = /"(?:length|bytes|size)"\s*:\s*(\d+)/.exec(source)?.[1];
  return withheldPill(sum, length);
}

function leafValue(text, value) {
  const source = text.slice(value.start, value.end);
  if (value.kind === "string") return stringValue(source, value.cut);
  if (value.kind === "none") return [el("span", "faint", "… cut here")];
  return [el("span", { number: "n", boolean: "b", null: "b", odd: "fail" }[value.kind], source)];
}

function countOf(value) {
  const noun = value.kind === "object" ? "member" : "item";
  const more = value.cut ? "+" : "";
  const size = value.end - value.start;
  const told = size < LARGE ? "" : `, ${bytes(size)}`;
  return `${value.count.toLocaleString("en")}${more} ${noun}${value.count === 1 && !more ? "" : "s"}${told}`;
}

function keyLabel(key) {
  const label = el("span", typeof key === "number" ? "k index" : "k");
  const name = el("bdi");
  appendVisible(name, String(key));
  label.append(name, ":");
  return label;
}

const pointer = (path, key) => `${path}/${String(key).replaceAll("~", "~0").replaceAll("/", "~1")}`;

class Tree {
  constructor(pre) {
    this.text = pre.textContent;
    this.name = pre.dataset.name ?? "value";
    this.pre = pre;
    this.root = el("ul", "tree");
    this.root.setAttribute("role", "tree");
    this.root.setAttribute("aria-label", this.name);
    const value = readValue(this.text);
    this.root.append(this.item({ key: this.name, value, path: `/${this.name}`, depth: 1, place: 1, of: 1 }));
    this.root.firstChild.tabIndex = 0;
    this.root.addEventListener("click", (event) => this.clicked(event));
    this.root.addEventListener("keydown", (event) => this.pressed(event));
    this.openSome(OPEN_AT_FIRST, 3);
  }

  item({ key, value, path, depth, place, of }) {
    const item = el("li");
    item.setAttribute("role", "treeitem");
    item.setAttribute("aria-level", depth);
    item.setAttribute("aria-posinset", place);
    item.setAttribute("aria-setsize", of);
    item.tabIndex = -1;
    const row = el("div", "node");
    const badge = withheld(this.text, value);
    const isBranch = !badge && (value.kind === "object" || value.kind === "array") && value.count > 0;
    row.append(el("span", isBranch ? "twig" : "twig none"), keyLabel(key));
    if (badge) row.append(badge);
    else if (isBranch) row.append(el("span", "faint", countOf(value)));
    else if (value.kind === "object" || value.kind === "array") row.append(el("span", "n", value.kind === "object" ? "{ }" : "[ ]"));
    else row.append(...leafValue(this.text, value));
    row.append(...this.tools());
    item.append(row);
    if (isBranch) item.setAttribute("aria-expanded", "false");
    nodeOf.set(item, { value, path, depth, isBranch });
    return item;
  }

  tools() {
    return [["value", "Copy value"], ["path", "Copy path"]].map(([act, label]) => {
      const button = el("button", "act", label);
      button.type = "button";
      button.tabIndex = -1;
      button.dataset.act = act;
      return button;
    });
  }

  toggle(item, open = item.getAttribute("aria-expanded") !== "true") {
    const node = nodeOf.get(item);
    if (!node?.isBranch || (item.getAttribute("aria-expanded") === "true") === open) return;
    item.setAttribute("aria-expanded", String(open));
    let group = item.querySelector(":scope > [role=group]");
    if (open && !group) {
      group = el("ul");
      group.setAttribute("role", "group");
      item.append(group);
      this.fill(group, node, members(this.text, node.value), 0);
    }
    if (group) group.hidden = !open;
  }

  /** Draws the next portion and leaves a button for the rest. */
  fill(group, node, rest, drawn) {
    const total = node.value.count;
    let place = drawn;
    while (place < drawn + PORTION) {
      const { value: member, done } = rest.next();
      if (done) return;
      place++;
      group.append(this.item({ ...member, path: pointer(node.path, member.key), depth: node.depth + 1, place, of: total }));
    }
    if (place >= total && !node.value.cut) return;
    const more = el("li", "more-members");
    more.setAttribute("role", "treeitem");
    more.setAttribute("aria-level", node.depth + 1);
    more.tabIndex = -1;
    more.textContent = `${place.toLocaleString("en")} of ${total.toLocaleString("en")} shown: show the next ${Math.min(PORTION, total - place).toLocaleString("en")}`;
    more.addEventListener("click", () => {
      more.remove();
      this.fill(group, node, rest, place);
    });
    group.append(more);
  }

  /** Opens level by level until so many rows are there. */
  openSome(rows, deepest) {
    let level = [this.root.firstChild];
    let left = rows;
    for (let depth = 0; depth < deepest && level.length; depth++) {
      const next = [];
      for (const item of level) {
        const node = nodeOf.get(item);
        if (!node?.isBranch) continue;
        if (depth > 0 && Math.min(node.value.count, PORTION) > left) continue;
        this.toggle(item, true);
        const children = item.querySelectorAll(":scope > [role=group] > [role=treeitem]");
        left -= children.length;
        next.push(...children);
      }
      level = next;
    }
  }

  openAll() {
    this.openSome(OPEN_ON_REQUEST, DEEPEST_ON_REQUEST);
  }

  closeAll() {
    const [first] = this.root.children;
    for (const item of first.querySelectorAll("[aria-expanded=true]")) this.toggle(item, false);
    this.focus(first);
  }

  copy(item, what) {
    const { value, path } = nodeOf.get(item) ?? {};
    if (!value) return;
    const source = this.text.slice(value.start, value.end);
    copyText(what === "path" ? path : value.kind === "string" ? decode(source) : source);
  }

  clicked(event) {
    const item = event.target.closest("[role=treeitem]");
    if (!item) return;
    const act = event.target.closest("[data-act]");
    this.focus(item);
    if (act) this.copy(item, act.dataset.act);
    else if (!getSelection()?.toString() || event.target.closest(".twig")) this.toggle(item);
  }

  focus(item) {
    if (!item) return;
    this.root.querySelector("[tabindex='0']")?.setAttribute("tabindex", "-1");
    item.tabIndex = 0;
    item.focus({ preventScroll: false });
  }

  /** The rows in view order: those whose groups are open. */
  neighbour(item, by) {
    const items = [...this.root.querySelectorAll("[role=treeitem]")].filter((one) => !one.closest("[role=group][hidden]"));
    return items[items.indexOf(item) + by];
  }

  pressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const item = event.target.closest("[role=treeitem]");
    const action = item && this.actionFor(event.key, item);
    if (!action) return;
    event.preventDefault();
    event.stopPropagation();
    action();
  }

  actionFor(key, item) {
    const isOpen = item.getAttribute("aria-expanded") === "true";
    const parent = item.parentElement.closest("[role=treeitem]");
    return {
      ArrowDown: () => this.focus(this.neighbour(item, 1)),
      ArrowUp: () => this.focus(this.neighbour(item, -1)),
      ArrowRight: () => (isOpen ? this.focus(this.neighbour(item, 1)) : this.toggle(item, true)),
      ArrowLeft: () => (isOpen ? this.toggle(item, false) : this.focus(parent)),
      Home: () => this.focus(this.root.firstChild),
      End: () => this.focus([...this.root.querySelectorAll("[role=treeitem]")].filter((one) => !one.closest("[role=group][hidden]")).at(-1)),
      Enter: () => item.click(),
      " ": () => item.click(),
      "*": () => [...item.parentElement.children].forEach((one) => this.toggle(one, true)),
      c: () => this.copy(item, "value"),
      p: () => this.copy(item, "path"),
    }[key];
  }
}

function toolbar(tree, pre) {
  const bar = el("div", "tree-bar");
  const button = (label, action) => {
    const one = el("button", "btn quiet", label);
    one.type = "button";
    one.addEventListener("click", () => action(one));
    bar.append(one);
    return one;
  };
  const open = button("Open all", () => tree.openAll());
  const close = button("Close all", () => tree.closeAll());
  button("Raw", (raw) => {
    const showRaw = pre.hidden;
    pre.hidden = !showRaw;
    tree.root.hidden = showRaw;
    open.disabled = close.disabled = showRaw;
    raw.setAttribute("aria-pressed", String(showRaw));
  }).setAttribute("aria-pressed", "false");
  button("Copy raw", () => copyText(tree.text));
  return bar;
}

/** Text the size of a book stays text, with what hides made visible where it is cheap to. */
function upgrade(pre) {
  pre.removeAttribute("data-tree");
  if (pre.textContent.length > BIGGEST_TREE) return;
  const tree = new Tree(pre);
  pre.before(toolbar(tree, pre), tree.root);
  pre.hidden = true;
}

export function growTrees(root = document) {
  for (const pre of root.querySelectorAll("pre[data-tree]")) upgrade(pre);
}

export function startTrees() {
  growTrees();
  document.addEventListener("fragment:shown", (event) => growTrees(event.target));
}

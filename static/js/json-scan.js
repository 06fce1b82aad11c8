// Reads JSON text without turning it into values: numbers stay the digits that came, doubled keys stay two,
// and text that stops in the middle is read as far as it goes. Never recurses, so depth is no danger.

const QUOTE = 34, BACKSLASH = 92, COMMA = 44, COLON = 58;
const OPEN_BRACE = 123, CLOSE_BRACE = 125, OPEN_BRACKET = 91, CLOSE_BRACKET = 93;

const isSpace = (code) => code === 32 || code === 10 || code === 13 || code === 9;

function skipSpace(text, at, end) {
  while (at < end && isSpace(text.charCodeAt(at))) at++;
  return at;
}

/** Index after the closing quote, or `end` when there is none. */
function skipString(text, at, end) {
  for (let i = at + 1; i < end; i++) {
    const code = text.charCodeAt(i);
    if (code === BACKSLASH) i++;
    else if (code === QUOTE) return i + 1;
  }
  return end;
}

function skipContainer(text, at, end) {
  let depth = 0, commas = 0, filled = false;
  for (let i = at; i < end; i++) {
    const code = text.charCodeAt(i);
    if (code === QUOTE) {
      filled = true;
      i = skipString(text, i, end) - 1;
    } else if (code === OPEN_BRACE || code === OPEN_BRACKET) {
      if (depth++) filled = true;
    } else if (code === CLOSE_BRACE || code === CLOSE_BRACKET) {
      if (--depth === 0) return { end: i + 1, count: filled ? commas + 1 : 0, cut: false };
    } else if (code === COMMA) {
      if (depth === 1) commas++;
    } else if (!isSpace(code)) filled = true;
  }
  return { end, count: filled ? commas + 1 : 0, cut: true };
}

function skipWord(text, at, end) {
  let i = at;
  while (i < end) {
    const code = text.charCodeAt(i);
    if (code === COMMA || code === CLOSE_BRACE || code === CLOSE_BRACKET || code === COLON || isSpace(code)) break;
    i++;
  }
  return i === at ? Math.min(at + 1, end) : i;
}

function kindOfWord(word) {
  if (word === "true" || word === "false" || word === "null") return word === "null" ? "null" : "boolean";
  return /^-?\d+(\.\d+)?([eE][-+]?\d+)?$/.test(word) ? "number" : "odd";
}

/** The value that starts at or after `at`: {kind, start, end, count, cut}. `kind` "none" when there is none. */
export function readValue(text, at = 0, end = text.length) {
  const start = skipSpace(text, at, end);
  if (start >= end) return { kind: "none", start, end, count: 0, cut: true };
  const code = text.charCodeAt(start);
  if (code === OPEN_BRACE || code === OPEN_BRACKET) {
    return { kind: code === OPEN_BRACE ? "object" : "array", start, ...skipContainer(text, start, end) };
  }
  if (code === QUOTE) {
    const after = skipString(text, start, end);
    const cut = after - start < 2 || text.charCodeAt(after - 1) !== QUOTE;
    return { kind: "string", start, end: after, count: 0, cut };
  }
  const after = skipWord(text, start, end);
  return { kind: kindOfWord(text.slice(start, after)), start, end: after, count: 0, cut: false };
}

/** The members of a container value, in order, with their keys (objects) or indexes (arrays). */
export function* members(text, container) {
  const isObject = container.kind === "object";
  const end = container.cut ? container.end : container.end - 1;
  let at = container.start + 1;
  for (let index = 0; ; index++) {
    at = skipSpace(text, at, end);
    if (at >= end) return;
    let key = index;
    if (isObject) {
      const name = readValue(text, at, end);
      key = name.kind === "string" ? decode(text.slice(name.start, name.end)) : text.slice(name.start, name.end);
      at = skipSpace(text, name.end, end);
      if (text.charCodeAt(at) === COLON) at++;
    }
    const value = readValue(text, at, end);
    yield { key, value };
    if (value.kind === "none") return;
    at = skipSpace(text, value.end, end);
    if (text.charCodeAt(at) === COMMA) at++;
  }
}

const SHORT_ESCAPES = { b: "\b", f: "\f", n: "\n", r: "\r", t: "\t" };

/** A JSON string literal as the characters it means; lone surrogates and whatever is broken stay as they are. */
export function decode(literal) {
  const closed = literal.length > 1 && literal.endsWith('"');
  const inner = literal.slice(1, closed ? -1 : undefined);
  if (!inner.includes("\\")) return inner;
  return inner.replace(/\\(u[0-9a-fA-F]{4}|.)/gs, (whole, code) => {
    if (code[0] === "u" && code.length === 5) return String.fromCharCode(parseInt(code.slice(1), 16));
    return SHORT_ESCAPES[code] ?? code;
  });
}

// Characters that do not show, and some that change how their neighbours do: pages show them as escapes instead.
// The joiner inside of an emoji stays, it is how the emoji is spelled.

const JOINED = /(?<=[\p{Extended_Pictographic}\p{Emoji_Modifier}\uFE0F])\u200D(?=\p{Extended_Pictographic})/u.source;
const HIDDEN = new RegExp(`(${JOINED})|[\\p{Cc}\\p{Cf}\\p{Zl}\\p{Zp}\\p{Co}\\p{Cs}]`, "gu");
const SHORT = { 8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r" };

const hex = (code) => code.toString(16).toUpperCase().padStart(4, "0");

export function escapeOf(char) {
  const code = char.codePointAt(0);
  return SHORT[code] ?? (code > 0xffff ? `\\u{${hex(code)}}` : `\\u${hex(code)}`);
}

export const codeOf = (char) => `U+${hex(char.codePointAt(0))}`;

/** [{index, char}] of what hides in a text. */
export function* hiddenIn(text) {
  for (const match of text.matchAll(HIDDEN)) if (match[1] === undefined) yield { index: match.index, char: match[0] };
}

/** A text for places without markup: canvas, titles. */
export const plain = (text) => String(text).replace(HIDDEN, (char, joiner) => joiner ?? escapeOf(char));

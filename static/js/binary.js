// Whether a text holds bytes instead of something to read: a data URL, base64 of bytes, or mostly control characters.
// That is told by its looks, and said so: a payload names no kinds.

const SHORTEST = 256; // characters of base64 before it is taken for bytes
const SEEN = 1024; // characters that are decoded to look at
const DATA_URL = /^data:([\w.+-]+\/[\w.+-]+)?((?:;[\w.=+-]+)*?)(;base64)?,/i;
const BASE64 = /^[A-Za-z0-9+/_-]+={0,2}$/;

const MAGIC = [
  ["\x89PNG", "image/png"], ["\xff\xd8\xff", "image/jpeg"], ["GIF8", "image/gif"], ["%PDF", "application/pdf"],
  ["PK\x03\x04", "zip"], ["\x1f\x8b", "gzip"], ["\x28\xb5\x2f\xfd", "zstd"], ["OggS", "audio/ogg"], ["ID3", "audio/mpeg"],
  ["\x7fELF", "program"], ["SQLite format 3", "SQLite database"], ["wOF2", "font"],
];

function decoded(text) {
  const plain = text.slice(0, SEEN).replaceAll("-", "+").replaceAll("_", "/");
  try {
    return atob(plain.slice(0, plain.length - (plain.length % 4)));
  } catch {
    return null;
  }
}

/** How many of the characters are no text in any encoding that there is. */
function controls(bytes) {
  let count = 0;
  for (let i = 0; i < bytes.length; i++) {
    const code = bytes.charCodeAt(i);
    if (code < 9 || (code > 13 && code < 32) || code === 127 || code === 0xfffd) count++;
  }
  return count;
}

function isUtf8(bytes) {
  try {
    // The last character may be cut in two.
    new TextDecoder("utf-8", { fatal: true }).decode(Uint8Array.from(bytes, (char) => char.charCodeAt(0)), { stream: true });
    return true;
  } catch {
    return false;
  }
}

const kindOf = (bytes) => MAGIC.find(([magic]) => bytes.startsWith(magic))?.[1];
const sizeOfBase64 = (length) => Math.floor((length * 3) / 4);

function base64In(text) {
  if (text.length < SHORTEST || !BASE64.test(text)) return null;
  const bytes = decoded(text);
  if (bytes === null) return null;
  const kind = kindOf(bytes);
  // Words, digests and tokens are base64 of nothing in particular: only what is no text when decoded is bytes.
  if (!kind && (isUtf8(bytes) || controls(bytes) < bytes.length / 20)) return null;
  return { is: kind ?? "binary", size: sizeOfBase64(text.replace(/=+$/, "").length), why: "Looks like bytes in base64. The event does not say what it is." };
}

/** {is, size, why} of a text that is better not painted, or null. */
export function binaryIn(text) {
  const url = DATA_URL.exec(text);
  if (url) {
    const length = text.length - url[0].length;
    const size = url[3] ? sizeOfBase64(length) : length;
    return { is: url[1] ?? "data", size, why: "A data URL: the bytes themselves, in place of an address." };
  }
  const found = base64In(text);
  if (found || text.length < 32) return found;
  const seen = text.slice(0, SEEN);
  if (controls(seen) < seen.length / 10) return null;
  return { is: "binary", size: text.length, why: "Mostly control characters: looks like bytes, not like text." };
}

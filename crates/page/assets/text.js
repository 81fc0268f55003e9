// @ts-check
/** Texts for people: what was written by strangers, made visible, and times, numbers and names. */

// Control, direction and invisible characters, as in the server's `markup::visible`.
const hidden =
  /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufeff\uffa0\ufff0-\ufffb\u{13430}-\u{1345f}\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}]/gu;
const aids = /[\u200c\u200d\ufe00-\ufe0f\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]/gu;

/** @param {string} c */
function escape(c) {
  const code = /** @type {number} */ (c.codePointAt(0));
  return code < 0x80 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u{${code.toString(16)}}`;
}

/**
 * Makes control and invisible characters of prose visible. Line breaks and tabs stay.
 *
 * @param {unknown} text
 */
export function visible(text) {
  return String(text ?? "").replaceAll("\r\n", "\n").replaceAll("\r", "\\r").replace(hidden, escape);
}

/**
 * Makes a command, path or name visible, of which every character matters.
 *
 * @param {unknown} text
 */
export function exact(text) {
  return visible(text).replace(aids, escape).replaceAll("\t", "\\t").replace(/ +$/gm, (spaces) => "\\x20".repeat(spaces.length));
}

/**
 * Cuts a text to a length, on one line.
 *
 * @param {string} text
 * @param {number} length
 */
export function brief(text, length) {
  const line = text.replace(/\s+/g, " ").trim();
  const characters = Array.from(line);
  return characters.length > length ? `${characters.slice(0, length - 1).join("")}…` : line;
}

/**
 * Returns how long ago a time is.
 *
 * @param {string | number | Date} time
 */
export function ago(time) {
  const seconds = Math.max(0, (Date.now() - new Date(time).getTime()) / 1000);
  if (seconds < 45) return "now";
  if (seconds < 3600) return `${Math.round(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.round(seconds / 3600)} h`;
  if (seconds < 7 * 86400) return `${Math.round(seconds / 86400)} d`;
  return new Date(time).toLocaleDateString();
}

/** @param {string | number | Date} time */
export function clock(time) {
  return new Date(time).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
}

/**
 * Returns US dollars as text; small amounts with the digits that matter.
 *
 * @param {number} dollars
 */
export function money(dollars) {
  return `$${dollars >= 1 ? dollars.toFixed(2) : dollars >= 0.01 ? dollars.toFixed(3) : dollars.toPrecision(2)}`;
}

/** @param {number} count */
export function compact(count) {
  if (count < 1000) return String(count);
  if (count < 1_000_000) return `${(count / 1000).toFixed(count < 10_000 ? 1 : 0)}k`;
  return `${(count / 1_000_000).toFixed(1)}M`;
}

/**
 * Returns the last part of a path.
 *
 * @param {string | null | undefined} path
 */
export function folder(path) {
  if (!path) return "";
  const parts = path.split("/").filter(Boolean);
  return exact(parts.at(-1) ?? path);
}

/** Returns a random id. */
export function randomId() {
  if (crypto.randomUUID) return crypto.randomUUID();
  // Pages without TLS have no `randomUUID`.
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

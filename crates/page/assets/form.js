// @ts-check
/**
 * Requests of MCP servers and clients that a person fills in: forms, pages to open, answers of the model, logins.
 *
 * Schemas are written by strangers: only their plain parts are understood, everything else becomes a field for text.
 */

import { post } from "./api.js";
import { fill, freshId, h, toast } from "./dom.js";
import { exact, visible } from "./text.js";

/** @typedef {import("./feed.js").PendingRequest} PendingRequest */
/** @typedef {(answer: any) => void} Send */
/** A field, and how its value is read; undefined if it is left empty. @typedef {{ element: HTMLElement, read: () => any }} Field */

/** Fields that are shown of one form. */
const MAX_FIELDS = 100;

/**
 * Shows a form, or a page to open.
 *
 * @param {HTMLElement} place
 * @param {PendingRequest} request
 * @param {Send} send
 */
export function elicitation(place, request, send) {
  const { url, requestedSchema } = request.detail;
  if (url) openPage(place, url, send);
  else fillIn(place, requestedSchema ?? {}, send);
}

/**
 * @param {HTMLElement} place
 * @param {string} url
 * @param {Send} send
 */
function openPage(place, url, send) {
  const isWeb = /^https?:\/\//i.test(url);
  place.append(
    h("p", {}, "This page wants to be opened. Check its address:"),
    h("pre", { class: "full", tabindex: 0, "aria-label": "Address" }, exact(url)),
    h("div", { class: "row" },
      isWeb ? h("a", { class: "button primary", href: url, target: "_blank", rel: "noopener noreferrer" }, "Open page") : null,
      h("button", { type: "button", onclick: () => send({ action: "accept" }) }, "Done"),
      h("button", { type: "button", onclick: () => send({ action: "decline" }) }, "Decline")));
}

/**
 * @param {HTMLElement} place
 * @param {any} schema
 * @param {Send} send
 */
function fillIn(place, schema, send) {
  const required = new Set(Array.isArray(schema.required) ? schema.required : []);
  const properties = Object.entries(schema.properties ?? {}).slice(0, MAX_FIELDS);
  const fields = properties.map(([name, rule]) => ({ name, ...field(name, rule ?? {}, required.has(name)) }));
  const form = h("form", {
    class: "answers",
    onsubmit: (/** @type {SubmitEvent} */ event) => {
      event.preventDefault();
      const content = Object.fromEntries(fields.map(({ name, read }) => [name, read()]).filter(([, value]) => value !== undefined));
      send({ action: "accept", content });
    },
  }, fields.map(({ element }) => element),
  h("div", { class: "row" },
    h("button", { type: "submit", class: "primary" }, "Send answer"),
    h("button", { type: "button", onclick: () => send({ action: "decline" }) }, "Decline")));
  place.append(form);
}

/**
 * Creates a field by its rule.
 *
 * @param {string} name
 * @param {any} rule
 * @param {boolean} required
 * @returns {Field}
 */
function field(name, rule, required) {
  const label = `${visible(rule.title || name)}${required ? "" : " (optional)"}`;
  if (rule.type === "boolean") return checkbox(label, rule);
  const several = rule.type === "array" ? choicesOf(rule.items ?? {}) : null;
  if (several) return checkboxes(label, rule, several);
  const choices = choicesOf(rule);
  return choices ? select(label, rule, required, choices) : input(label, rule, required);
}

/**
 * Returns the values that may be chosen, with their titles; none if anything may be written.
 *
 * @param {any} rule
 * @returns {[string, string][] | null}
 */
function choicesOf(rule) {
  if (Array.isArray(rule.enum)) {
    return rule.enum.map((/** @type {unknown} */ value, /** @type {number} */ at) => [String(value), String(rule.enumNames?.[at] ?? value)]);
  }
  const named = rule.oneOf ?? rule.anyOf;
  if (!Array.isArray(named) || !named.every((one) => typeof one?.const === "string")) return null;
  return named.map((one) => [one.const, String(one.title ?? one.const)]);
}

/**
 * @param {string} id
 * @param {any} rule
 */
function described(id, rule) {
  return rule.description ? h("p", { class: "hint", id: `${id}-hint` }, visible(rule.description)) : null;
}

/**
 * @param {string} label
 * @param {any} rule
 * @returns {Field}
 */
function checkbox(label, rule) {
  const id = freshId();
  const box = h("input", { id, type: "checkbox", "aria-describedby": rule.description ? `${id}-hint` : null });
  box.checked = rule.default === true;
  return { element: h("div", {}, h("label", { class: "steer", for: id }, box, label.replace(/ \(optional\)$/, "")), described(id, rule)), read: () => box.checked };
}

/**
 * @param {string} label
 * @param {any} rule
 * @param {[string, string][]} choices
 * @returns {Field}
 */
function checkboxes(label, rule, choices) {
  const chosen = new Set(Array.isArray(rule.default) ? rule.default : []);
  const boxes = choices.map(([value, title]) => {
    const box = h("input", { type: "checkbox" });
    box.checked = chosen.has(value);
    return { value, box, element: h("label", { class: "steer" }, box, visible(title)) };
  });
  return {
    element: h("fieldset", {}, h("legend", {}, label), boxes.map(({ element }) => element)),
    read: () => boxes.filter(({ box }) => box.checked).map(({ value }) => value),
  };
}

/**
 * @param {string} label
 * @param {any} rule
 * @param {boolean} required
 * @param {[string, string][]} choices
 * @returns {Field}
 */
function select(label, rule, required, choices) {
  const id = freshId();
  const list = h("select", { id, required, "aria-describedby": rule.description ? `${id}-hint` : null },
    h("option", { value: "" }, "Choose…"), choices.map(([value, title]) => h("option", { value }, visible(title))));
  if (typeof rule.default === "string") list.value = rule.default;
  return { element: h("div", {}, h("label", { for: id }, label), list, described(id, rule)), read: () => list.value || undefined };
}

const INPUT_TYPES = /** @type {Record<string, string>} */ ({ email: "email", uri: "url", date: "date" });

/**
 * @param {string} label
 * @param {any} rule
 * @param {boolean} required
 * @returns {Field}
 */
function input(label, rule, required) {
  const id = freshId();
  const isNumber = rule.type === "number" || rule.type === "integer";
  const limit = (/** @type {unknown} */ value) => (typeof value === "number" ? value : null);
  const box = h("input", {
    id, required, autocomplete: "off",
    type: isNumber ? "number" : INPUT_TYPES[rule.format] ?? "text",
    step: rule.type === "number" ? "any" : null,
    min: limit(rule.minimum), max: limit(rule.maximum),
    minlength: limit(rule.minLength), maxlength: limit(rule.maxLength),
    "aria-describedby": rule.description ? `${id}-hint` : null,
  });
  if (["string", "number"].includes(typeof rule.default)) box.value = String(rule.default);
  return {
    element: h("div", {}, h("label", { for: id }, label), box, described(id, rule)),
    read: () => (box.value === "" ? undefined : isNumber ? Number(box.value) : box.value),
  };
}

/**
 * Shows what an MCP server wants to ask the model.
 *
 * @param {HTMLElement} place
 * @param {PendingRequest} request
 * @param {Send} send
 */
export function sampling(place, request, send) {
  const asked = request.detail.request ?? {};
  const parts = [asked.systemPrompt ? `system: ${asked.systemPrompt}` : "", ...(asked.messages ?? []).map(spoken)];
  place.append(
    h("p", {}, "The server wants an answer of this session's model, at your cost:"),
    h("pre", { class: "full", tabindex: 0, "aria-label": "All of it" }, exact(parts.filter(Boolean).join("\n"))),
    h("div", { class: "row" },
      h("button", { type: "button", class: "primary", onclick: () => send({ approve: true }) }, "Allow once"),
      h("button", { type: "button", class: "danger", onclick: () => send({ approve: false }) }, "Deny")));
}

/** @param {any} message */
function spoken(message) {
  const contents = [message?.content].flat();
  return contents.map((content) => `${message?.role}: ${content?.type === "text" ? content.text : JSON.stringify(content)}`).join("\n");
}

/**
 * Shows a login at an MCP server: its link, and a field for browsers that cannot return to this server.
 *
 * @param {HTMLElement} place
 * @param {PendingRequest} request
 * @param {Send} send
 */
export function login(place, request, send) {
  const shown = h("p", {});
  const id = freshId();
  const pasted = h("input", { id, type: "text", autocomplete: "off", spellcheck: "false" });
  const finish = h("form", {
    class: "answers", hidden: true,
    onsubmit: (/** @type {SubmitEvent} */ event) => {
      event.preventDefault();
      if (pasted.value.trim()) send({ pasted: pasted.value.trim() });
    },
  }, h("label", { for: id }, "If the browser cannot return here, paste the address that it ended at"), pasted,
  h("div", { class: "row" }, h("button", { type: "submit" }, "Finish login")));
  const path = `sessions/${encodeURIComponent(request.sessionId)}/requests/${encodeURIComponent(request.requestId)}/link`;
  const getLink = async () => {
    try {
      const { authorizationUrl } = await post(path);
      if (!/^https?:/.test(authorizationUrl ?? "")) throw new Error("The server gave no link.");
      fill(shown, h("a", { href: authorizationUrl, target: "_blank", rel: "noopener noreferrer" }, visible(authorizationUrl)));
      finish.hidden = false;
    } catch (error) {
      toast(error instanceof Error ? error.message : String(error), "error");
    }
  };
  place.append(
    h("div", { class: "row" },
      h("button", { type: "button", class: "primary", onclick: getLink }, "Get the link"),
      h("button", { type: "button", onclick: () => send({ decline: true }) }, "Decline")),
    shown, finish);
}

// @ts-check
/** Tool calls: what is called, its output while it runs, and its result. */

import { fill, h, icon, icons } from "./dom.js";
import { brief, exact, visible } from "./text.js";

/** Maximum number of characters of live output that are kept. */
const MAX_OUTPUT = 20_000;
const IMAGES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);

/**
 * Shows a diff with coloured lines. Text only.
 *
 * @param {string} text
 */
export function coloured(text) {
  const lines = visible(text).trimEnd().split("\n");
  const shown = lines.slice(0, 2000).map((line) => {
    const style = line.startsWith("+++") || line.startsWith("---") || line.startsWith("diff ") ? "file"
      : line.startsWith("@@") ? "hunk" : line.startsWith("+") ? "added" : line.startsWith("-") ? "removed" : "";
    return h("span", { class: style }, `${line}\n`);
  });
  if (lines.length > 2000) shown.push(h("span", { class: "hunk" }, `… ${lines.length - 2000} more lines`));
  return h("pre", { class: "diff", tabindex: 0, "aria-label": "Changes" }, shown);
}

/** @param {string} text */
export function looksLikeDiff(text) {
  return /^(diff --git |--- |@@ )/m.test(text) && /^[+-]/m.test(text);
}

/**
 * Returns the one line by which people recognise a call.
 *
 * @param {any} call
 */
export function summaryOf(call) {
  const given = call.arguments;
  const first = typeof given === "object" && given
    ? given.command ?? given.path ?? given.file_path ?? given.pattern ?? given.query ?? given.url ?? given.question ?? given.description ?? given.prompt
    : given;
  return typeof first === "string" ? brief(exact(first), 160) : "";
}

/** One call in the conversation. */
export class ToolCard {
  /** @param {string} id */
  constructor(id) {
    this.id = id;
    this.name = h("span", { class: "tool-name" }, "tool");
    this.what = h("span", { class: "tool-what" });
    this.badge = h("span", { class: "badge" });
    this.args = h("div", { class: "args" });
    this.output = h("pre", { class: "output", tabindex: 0, "aria-label": "Output", hidden: true });
    this.result = h("div", { class: "result" });
    this.decision = h("p", { class: "hint", hidden: true });
    this.children = h("div", { class: "nested", hidden: true });
    this.text = "";
    this.element = h("details", { class: "tool", "data-call": id },
      h("summary", {}, icon(icons.fold), this.name, this.what, this.badge),
      h("div", { class: "tool-body" }, this.args, this.decision, this.output, this.result), );
    this.holder = h("div", { class: "item tool-item" }, this.element, this.children);
    this.state("running");
  }

  /** @param {"running" | "waiting" | "done" | "failed"} state */
  state(state) {
    this.element.dataset.state = state;
    fill(this.badge, { running: "running", waiting: "waiting", done: "", failed: "failed" }[state]);
    if (state === "done") this.badge.replaceChildren(icon(icons.check), h("span", { class: "sr" }, "done"));
  }

  /** @param {any} call */
  start(call) {
    const server = call.mcpServerName ? `${visible(call.mcpServerName)}: ` : "";
    fill(this.name, `${server}${visible(call.toolTitle ?? call.mcpToolName ?? call.toolName ?? call.name ?? "tool")}`);
    fill(this.what, summaryOf(call));
    const given = call.arguments;
    if (given === undefined || given === null) return;
    const command = typeof given === "object" && typeof given.command === "string" ? given.command : null;
    const { command: _, ...others } = typeof given === "object" ? given : { command: "" };
    fill(this.args,
      command === null ? null : h("pre", { class: "command", tabindex: 0, "aria-label": "Command" }, exact(command)),
      command !== null && Object.keys(others).length === 0 ? null
        : argumentsList(command === null ? given : others));
  }

  /** @param {string} more */
  append(more) {
    this.text = (this.text + more).slice(-MAX_OUTPUT);
    this.output.hidden = false;
    const stick = this.output.scrollHeight - this.output.scrollTop - this.output.clientHeight < 30;
    fill(this.output, visible(this.text));
    if (stick) this.output.scrollTop = this.output.scrollHeight;
  }

  /**
   * Replaces the output so far: this reader has missed parts.
   *
   * @param {string} text
   */
  replaceOutput(text) {
    this.text = "";
    if (text) this.append(text);
  }

  /** @param {any} complete */
  complete(complete) {
    this.state(complete.success ? "done" : "failed");
    this.output.hidden = true;
    const { result, error } = complete;
    const parts = [];
    const text = result?.detailedContent || result?.content || error?.message || "";
    if (text) {
      parts.push(looksLikeDiff(text) ? coloured(text)
        : h("pre", { class: complete.success ? "output" : "output bad", tabindex: 0, "aria-label": "Result" }, visible(clip(text))));
    }
    for (const image of result?.binaryResultsForLlm ?? []) {
      if (IMAGES.has(image.mimeType) && /^[A-Za-z0-9+/=]+$/.test(image.data ?? "")) {
        parts.push(h("img", { src: `data:${image.mimeType};base64,${image.data}`, alt: visible(image.description ?? "Image from the tool"), loading: "lazy" }));
        this.element.open = true;
      }
    }
    const where = Array.isArray(result?.contents) ? result.contents.find((/** @type {any} */ part) => part?.sandbox)?.sandbox : null;
    if (where) parts.push(h("p", { class: "hint" }, `Ran in the sandbox: ${visible(where)}`));
    fill(this.result, parts);
    if (text && looksLikeDiff(text)) this.element.open = true;
  }

  /** @param {string} text */
  decided(text) {
    this.decision.hidden = false;
    fill(this.decision, text);
  }
}

/** @param {string} text */
function clip(text) {
  return text.length > MAX_OUTPUT ? `${text.slice(0, MAX_OUTPUT)}\n… ${text.length - MAX_OUTPUT} more characters` : text;
}

/** @param {any} given */
function argumentsList(given) {
  if (typeof given !== "object" || Array.isArray(given)) {
    return h("pre", { tabindex: 0, "aria-label": "Arguments" }, visible(typeof given === "string" ? given : JSON.stringify(given, null, 2)));
  }
  return h("dl", {}, Object.entries(given).map(([name, value]) => h("div", {},
    h("dt", {}, visible(name)),
    h("dd", {}, exact(clip(typeof value === "string" ? value : JSON.stringify(value, null, 1)))))));
}

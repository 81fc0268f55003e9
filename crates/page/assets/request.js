// @ts-check
/** One pending request as an article: what is asked, and the answers. */

import { ApiError, post, render } from "./api.js";
import { fill, freshId, h, showRendered, toast } from "./dom.js";
import { elicitation, login, sampling } from "./form.js";
import { ago, brief, exact, visible } from "./text.js";
import { coloured } from "./tool.js";

/** @typedef {import("./feed.js").PendingRequest} PendingRequest */
/** @typedef {import("./app.js").App} App */

/**
 * @typedef {object} Subject
 * @property {string} heading
 * @property {string} [full] all of it, if the heading shows only the start
 * @property {string} [diff]
 * @property {string} [whole] the whole new content of a file, of which the diff may show a part
 * @property {string} [why]
 * @property {string[]} [facts]
 */

/**
 * Returns what a permission is for, by the kind of request.
 *
 * @param {PendingRequest} request
 * @returns {Subject}
 */
export function subject(request) {
  const detail = request.detail ?? {};
  const tool = request.toolName ?? request.kind;
  if (request.kind !== "permission") return otherSubject(request);
  const facts = [];
  if (detail.warning) facts.push(visible(detail.warning));
  if (detail.kind === "shell" && detail.sandbox && detail.sandbox !== "off") facts.push(`Runs in the sandbox: ${visible(detail.sandbox)}`);
  switch (detail.kind) {
    case "shell":
      return named(tool, detail.fullCommandText ?? "", { why: detail.intention, facts });
    case "write":
      return named(tool, detail.fileName ?? "", { why: detail.intention, diff: detail.diff ?? detail.newFileContents, whole: detail.newFileContents ?? detail.diff, facts });
    case "read":
      return named(tool, detail.path ?? "", { why: detail.intention, facts });
    case "url":
      return named(tool, detail.url ?? "", { why: detail.intention, facts });
    case "mcp":
      return named(`${detail.serverName ?? "MCP"}: ${mcpTool(detail, tool)}`, json(detail.args), { facts });
    default: {
      const { kind, toolCallId, ...rest } = detail;
      return named(`${tool}${kind ? ` (${visible(kind)})` : ""}`, json(rest), { facts });
    }
  }
}

/**
 * Returns the name of an MCP tool, which rules and grants are about, and then its title, which the server chose.
 *
 * @param {any} detail
 * @param {string} tool
 */
function mcpTool(detail, tool) {
  const name = detail.toolName ?? tool;
  return detail.toolTitle && detail.toolTitle !== name ? `${name} (“${brief(visible(detail.toolTitle), 80)}”)` : name;
}

/** @param {unknown} value */
function json(value) {
  return value === undefined || value === null ? "" : JSON.stringify(value, null, 1);
}

/**
 * @param {string} tool
 * @param {string} what
 * @param {Partial<Subject>} more
 * @returns {Subject}
 */
function named(tool, what, more) {
  const shown = exact(what);
  const short = brief(shown, 240);
  return { heading: short ? `${visible(tool)}: ${short}` : visible(tool), full: short === shown ? undefined : shown, ...more };
}

/** Reasons for a login, in words. */
const LOGIN_REASONS = /** @type {Record<string, string>} */ ({ initial: "This MCP server needs a login before its tools can be used." });

/**
 * @param {PendingRequest} request
 * @returns {Subject}
 */
function otherSubject({ kind, detail, toolName }) {
  switch (kind) {
    case "question":
      return named("Question", detail.question ?? "", {});
    case "plan":
      return { heading: "Plan: review it before the work starts" };
    case "switch":
      return { heading: `Fallback model: continue with ${visible(detail.model)}?`, why: detail.reason };
    case "command":
      return named("Command", detail.command ?? "", {});
    case "login":
      return named("Log in", detail.serverName ?? "", { why: LOGIN_REASONS[detail.reason] ?? detail.reason });
    case "sampling":
      return named("Use the model", detail.serverName ?? "", {});
    case "elicitation":
      return named(detail.source || (detail.url ? "Page" : "Form"), detail.message ?? "", {});
    default:
      return named(toolName ?? kind, json(detail), {});
  }
}

/**
 * Creates the article of a request.
 *
 * @param {App} app
 * @param {PendingRequest} request
 */
export function requestArticle(app, request) {
  const what = subject(request);
  const heading = h("h3", { id: freshId(), tabindex: -1 }, what.heading);
  const session = app.feed.sessions.get(request.sessionId);
  const article = h("article", {
    class: `request ${request.kind}`,
    "aria-labelledby": heading.id,
    "data-request": request.requestId,
    "data-session": request.sessionId,
  });
  const since = app.feed.since.get(request.requestId) ?? Date.now();
  const meta = h(
    "p",
    { class: "meta" },
    h("a", { href: `#/s/${encodeURIComponent(request.sessionId)}` }, brief(visible(session?.title || "Untitled session"), 70)),
    session?.cwd ? h("span", { class: "path", title: exact(session.cwd) }, exact(session.cwd)) : null,
    h("span", { "data-since": since }, ago(since)),
  );
  article.append(heading, meta);
  if (what.why) article.append(h("p", { class: "why" }, brief(visible(what.why), 300)));
  for (const fact of what.facts ?? []) article.append(h("p", { class: "problem" }, fact));
  if (what.full) article.append(h("pre", { class: "full", tabindex: 0, "aria-label": "All of it" }, what.full));
  if (what.diff) article.append(coloured(what.diff));
  if (what.whole) article.append(whole(what.whole));
  article.append(app.may("approver") ? answers(app, request, article) : h("p", { class: "hint" }, "Your role can watch, not answer."));
  return article;
}

/**
 * Creates a fold with all of a file. Its text is made when it is opened: files are large.
 *
 * @param {string} text
 */
function whole(text) {
  const place = h("pre", { class: "full", tabindex: 0, "aria-label": "All of the change" });
  const fold = h("details", { class: "whole" }, h("summary", {}, "Show all of it"), place);
  fold.addEventListener("toggle", () => place.textContent || fill(place, visible(text)), { once: true });
  return fold;
}

/**
 * @param {App} app
 * @param {PendingRequest} request
 * @param {HTMLElement} article
 */
function answers(app, request, article) {
  const place = h("div", { class: "answers" });
  const send = (/** @type {any} */ answer) => answerRequest(app, request, article, { kind: request.kind, ...answer });
  switch (request.kind) {
    case "permission":
      permission(place, request, send);
      break;
    case "question":
      question(place, request, send);
      break;
    case "plan":
      plan(place, request, send);
      break;
    case "switch":
      row(place, [
        ["Continue", "primary", () => send({ response: "yes" })],
        ["Continue, always", "", () => send({ response: "yes-always" })],
        ["Stop", "", () => send({ response: "no" })],
      ]);
      break;
    case "command":
      row(place, [
        ["It was run", "primary", () => send({ handled: true })],
        ["It will not be run", "", () => send({ handled: false })],
      ]);
      break;
    case "login":
      login(place, request, send);
      break;
    case "sampling":
      sampling(place, request, send);
      break;
    case "elicitation":
      elicitation(place, request, send);
      break;
    default: {
      const field = textField(place, "Result of the tool");
      row(place, [
        ["Send result", "primary", () => send({ text: field.value })],
        ["It failed", "", () => send({ text: field.value || "failed", failed: true })],
      ]);
    }
  }
  return place;
}

/**
 * @param {HTMLElement} place
 * @param {[string, string, () => void][]} buttons
 */
function row(place, buttons) {
  place.append(h("div", { class: "row" }, buttons.map(([label, style, press]) => h("button", { type: "button", class: style, onclick: press }, label))));
}

/**
 * @param {HTMLElement} place
 * @param {string} label
 */
function textField(place, label) {
  const id = freshId();
  const field = h("textarea", { id, rows: 2 });
  place.append(h("label", { for: id }, label), field);
  return field;
}

/**
 * @param {HTMLElement} place
 * @param {PendingRequest} request
 * @param {(answer: any) => void} send
 */
function permission(place, request, send) {
  const feedbackId = freshId();
  const feedback = h("textarea", { id: feedbackId, rows: 2, placeholder: "What to do instead" });
  const deny = h("div", { class: "deny", hidden: true },
    h("label", { for: feedbackId }, "Feedback for the model (optional)"),
    feedback,
    h("div", { class: "row" }, h("button", {
      type: "button", class: "danger",
      onclick: () => send({ decision: "reject", feedback: feedback.value.trim() || undefined }),
    }, "Deny with feedback")),
  );
  const more = h("button", {
    type: "button", class: "plain", "aria-expanded": "false",
    onclick: () => {
      options.hidden = !options.hidden;
      deny.hidden = options.hidden;
      more.setAttribute("aria-expanded", String(!options.hidden));
    },
  }, "More…");
  const options = h("ul", { class: "offers", hidden: true });
  for (const offer of request.offers ?? []) {
    const meaning = visible(offer.meaning);
    const id = freshId();
    options.append(h("li", {},
      h("p", { id }, meaning),
      h("div", { class: "row" },
        h("button", { type: "button", "aria-describedby": id, onclick: () => send({ decision: "approve-for-session", grant: offer.grant }) }, "Allow in this session"),
        h("button", { type: "button", "aria-describedby": id, onclick: () => send({ decision: "approve-for-location", grant: offer.grant }) }, "Allow at this location"),
      ),
    ));
  }
  place.append(
    h("div", { class: "row" },
      h("button", { type: "button", class: "primary", onclick: () => send({ decision: "approve" }) }, "Allow once"),
      h("button", { type: "button", class: "danger", onclick: () => send({ decision: "reject" }) }, "Deny"),
      more,
    ),
    options,
    deny,
  );
}

/**
 * @param {HTMLElement} place
 * @param {PendingRequest} request
 * @param {(answer: any) => void} send
 */
function question(place, request, send) {
  const { choices = [], allowFreeform = true } = request.detail;
  row(place, (choices ?? []).map((/** @type {string} */ choice) => [visible(choice), "", () => send({ answer: choice, chosen: true })]));
  if (!allowFreeform && choices?.length) return;
  const field = textField(place, "Your answer");
  row(place, [["Answer", "primary", () => field.value.trim() && send({ answer: field.value })]]);
}

const PLAN_ACTIONS = /** @type {Record<string, string>} */ ({
  interactive: "Start, ask for permissions",
  autopilot: "Start on autopilot",
  autopilot_fleet: "Start on autopilot, in parallel",
  exit_only: "Leave plan mode only",
});

/**
 * @param {HTMLElement} place
 * @param {PendingRequest} request
 * @param {(answer: any) => void} send
 */
function plan(place, request, send) {
  const { summary = "", planContent = "", actions = [], recommendedAction } = request.detail;
  const text = planContent || summary;
  const shown = h("div", { class: "rendered plan" }, visible(text));
  render(text).then((html) => showRendered(shown, html), () => {});
  place.append(shown);
  row(place, actions.map((/** @type {string} */ action) => [
    PLAN_ACTIONS[action] ?? action, action === recommendedAction ? "primary" : "", () => send({ response: action }),
  ]));
  const field = textField(place, "Feedback for the model (optional)");
  row(place, [["Reject plan", "danger", () => send({ response: "reject", feedback: field.value.trim() || undefined })]]);
}

/**
 * Sends an answer. If somebody was faster, says who. If the server did not confirm it, says so and lets the user try again: an
 * answer that was recorded all the same is the one that the server then names.
 *
 * @param {App} app
 * @param {PendingRequest} request
 * @param {HTMLElement} article
 * @param {any} answer
 */
async function answerRequest(app, request, article, answer) {
  const buttons = article.querySelectorAll("button");
  buttons.forEach((button) => (button.disabled = true));
  article.setAttribute("aria-busy", "true");
  const earlier = article.querySelector(".unanswered");
  const unsure = earlier?.classList.contains("lost");
  earlier?.remove();
  try {
    await post(`sessions/${encodeURIComponent(request.sessionId)}/requests/${encodeURIComponent(request.requestId)}`, answer);
    app.feed.drop(request);
  } catch (error) {
    if (error instanceof ApiError && ["already_answered", "not_found"].includes(error.code)) {
      toast(`${unsure ? "Answered" : "Too late"}: ${error.message}.`);
      app.feed.drop(request);
      return;
    }
    buttons.forEach((button) => (button.disabled = false));
    article.removeAttribute("aria-busy");
    const refused = error instanceof ApiError && error.status >= 400 && error.status < 500;
    const why = visible(error instanceof Error ? error.message : String(error));
    article.append(h("p", { class: `problem unanswered ${refused ? "refused" : "lost"}`, role: "alert" }, `${refused ? "Not accepted" : "Not delivered"}: ${why}`));
  }
}

/**
 * Updates the times in an element.
 *
 * @param {Element} place
 */
export function updateTimes(place) {
  for (const element of place.querySelectorAll("[data-since]")) {
    fill(element, ago(Number(element.getAttribute("data-since"))));
  }
}

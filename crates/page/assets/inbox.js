// @ts-check
/** The inbox: everything that waits for somebody, in all sessions. */

import { fill, h, icon, icons } from "./dom.js";
import { requestArticle, updateTimes } from "./request.js";

/** @typedef {import("./app.js").App} App */

/**
 * Creates the region.
 *
 * @param {App} app
 */
export function inboxRegion(app) {
  const heading = h("h2", { id: "inbox-heading" }, "Inbox");
  const empty = h("div", { class: "empty" }, icon(icons.check), h("p", {}, "Nothing waits for you."),
    h("p", { class: "hint" }, "Permissions, questions and plans of all sessions appear here."));
  const list = h("div", { class: "requests", "aria-live": "polite", "aria-relevant": "additions" });
  const region = h("section", { id: "inbox", "aria-labelledby": heading.id, tabindex: -1 }, heading, list, empty);
  /** @type {Map<string, HTMLElement>} */
  const articles = new Map();

  const update = () => {
    const pending = app.feed.pending();
    const wanted = new Set(pending.map(({ requestId }) => requestId));
    for (const [id, article] of articles) {
      if (wanted.has(id)) continue;
      const hadFocus = article.contains(document.activeElement);
      article.remove();
      articles.delete(id);
      if (hadFocus) focusNext(list, region);
    }
    let before = list.firstElementChild;
    for (const request of pending) {
      let article = articles.get(request.requestId);
      if (!article) {
        article = requestArticle(app, request);
        articles.set(request.requestId, article);
      }
      if (article === before) before = before.nextElementSibling;
      else list.insertBefore(article, before);
    }
    fill(heading, "Inbox", pending.length ? h("span", { class: "count", "aria-hidden": "true" }, pending.length) : null);
    heading.setAttribute("aria-label", "Inbox");
    region.classList.toggle("is-empty", pending.length === 0);
    empty.hidden = pending.length > 0 || !app.feed.loaded;
    app.showCount(pending.length);
    app.showDocked();
  };
  app.feed.addEventListener("requests", update);
  setInterval(() => updateTimes(list), 20_000);
  update();
  return region;
}

/**
 * Keeps the focus in the inbox when the article with the focus has gone.
 *
 * @param {HTMLElement} list
 * @param {HTMLElement} region
 */
function focusNext(list, region) {
  const next = /** @type {HTMLElement | null} */ (list.querySelector("article h3"));
  (next ?? region).focus({ preventScroll: true });
}

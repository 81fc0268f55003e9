// @ts-check
/** The list of sessions, with search. */

import { get } from "./api.js";
import { fill, h } from "./dom.js";
import { ago, brief, exact, folder, money, visible } from "./text.js";

/** @typedef {import("./app.js").App} App */
/** @typedef {import("./feed.js").SessionInfo} SessionInfo */

/** Number of sessions that are shown at first, and added by "Show more". */
const SHOWN = 60;

/**
 * Creates the region.
 *
 * @param {App} app
 */
export function sessionsRegion(app) {
  const heading = h("h2", { id: "sessions-heading" }, "Sessions");
  const list = h("ul", { class: "sessions" });
  const field = h("input", {
    type: "search", id: "search", placeholder: "Search titles and contents", autocomplete: "off", "aria-label": "Search sessions",
    oninput: () => search(),
  });
  const note = h("p", { class: "hint", role: "status" });
  const more = h("button", { type: "button", class: "plain wide", hidden: true, onclick: () => { limit += SHOWN; update(); } }, "Show more");
  const region = h("section", { id: "sessions", "aria-labelledby": heading.id, tabindex: -1 },
    h("div", { class: "bar" }, heading), h("div", { class: "search" }, field), note, list, more);
  let limit = SHOWN;
  /** @type {Map<string, { row: HTMLElement, key: string }>} */
  let rows = new Map();
  /** @type {{ session: SessionInfo, matches: number, excerpt: string }[] | null} */
  let found = null;
  /** Whether the server still indexes older sessions. */
  let incomplete = false;
  let timer = 0;
  let scheduled = false;

  const search = () => {
    clearTimeout(timer);
    const text = field.value.trim();
    if (!text) {
      found = null;
      update();
      return;
    }
    timer = setTimeout(async () => {
      try {
        const result = await get(`search?text=${encodeURIComponent(text)}`);
        if (field.value.trim() !== text) return;
        found = result.found;
        incomplete = result.incomplete;
        update();
      } catch (error) {
        fill(note, error instanceof Error ? error.message : "");
      }
    }, 200);
  };

  const update = () => {
    scheduled = false;
    const all = found
      ? found.map(({ session, excerpt }) => ({ session: app.feed.sessions.get(session.id) ?? session, excerpt }))
      : [...app.feed.sessions.values()].sort((a, b) => (a.updatedAt < b.updatedAt ? 1 : -1)).map((session) => ({ session, excerpt: "" }));
    const next = new Map();
    const shown = all.slice(0, limit).map(({ session, excerpt }) => {
      const waits = (app.feed.requests.get(session.id) ?? []).length;
      const key = JSON.stringify([session.title, session.busy, session.model, session.cwd, session.cost, session.watching, ago(session.updatedAt), waits, excerpt, app.current === session.id]);
      const known = rows.get(session.id);
      const row = known?.key === key ? known.row : item(app, session, excerpt, waits);
      next.set(session.id, { row, key });
      return row;
    });
    rows = next;
    list.replaceChildren(...shown);
    more.hidden = all.length <= limit;
    if (found) fill(note, (found.length ? `${found.length} found` : "Nothing found.") + (incomplete ? " Older sessions are still being indexed." : ""));
    else fill(note, all.length || !app.feed.loaded ? "" : "No sessions yet. Start one with New session.");
  };
  const schedule = () => {
    if (scheduled) return;
    scheduled = true;
    requestAnimationFrame(update);
  };
  app.feed.addEventListener("sessions", schedule);
  app.feed.addEventListener("requests", schedule);
  app.addEventListener("route", schedule);
  setInterval(schedule, 30_000);
  update();
  return region;
}

/**
 * @param {App} app
 * @param {SessionInfo} session
 * @param {string} excerpt
 * @param {number} waits
 */
function item(app, session, excerpt, waits) {
  const state = waits ? "waits" : session.busy ? "busy" : "idle";
  const label = { waits: "waits for an answer", busy: "working", idle: "" }[state];
  const isCurrent = app.current === session.id;
  return h("li", {},
    h("a", { href: `#/s/${encodeURIComponent(session.id)}`, class: `session ${state}`, "aria-current": isCurrent ? "page" : false },
      h("span", { class: "title" }, brief(visible(session.title || "Untitled session"), 120)),
      h("span", { class: "meta" },
        label ? h("span", { class: "state" }, label) : null,
        session.heldBy ? h("span", {}, `held by process ${session.heldBy.pid}`) : null,
        session.cwd ? h("span", { title: exact(session.cwd) }, folder(session.cwd)) : null,
        session.model ? h("span", {}, visible(session.model)) : null,
        session.cost ? h("span", {}, money(session.cost)) : null,
        session.watching ? h("span", {}, `${session.watching} attached`) : null,
        h("span", {}, ago(session.updatedAt)),
      ),
      excerpt ? h("span", { class: "excerpt" }, visible(excerpt)) : null,
    ),
  );
}

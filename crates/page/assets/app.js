// @ts-check
/** The page: who is logged in, what is shown where, and the connection. */

import { ApiError, call, get, loggedOut, post, url } from "./api.js";
import { composer, queueList } from "./compose.js";
import { Conversation } from "./conversation.js";
import { ask, fill, freshId, h, icon, icons, toast } from "./dom.js";
import { Feed } from "./feed.js";
import { inboxRegion } from "./inbox.js";
import { showLogin } from "./login.js";
import { notificationsSection, prepareNotifications, turnOff } from "./notifications.js";
import { sessionsRegion } from "./sessions.js";
import { brief, compact, exact, money, randomId, visible } from "./text.js";

const ROLES = ["viewer", "approver", "driver", "admin"];

/** @typedef {{ name: string, role: string, version: string, cwd: string }} Me */

/** @param {HTMLElement} root */
export async function start(root) {
  const used = location.hash === "#/used-link";
  const offered = /^#\/login\/([\w-]+)$/.exec(location.hash)?.[1];
  if (used || offered) history.replaceState(null, "", "#/");
  /** @type {App | null} */
  let app = null;
  const enter = async () => {
    for (let pause = 300; ; pause = Math.min(pause * 2, 4000)) {
      try {
        const me = await get("me");
        if (app && app.me.name === me.name && app.me.role === me.role) app.resume();
        else {
          app?.close();
          app = new App(root, me);
        }
        return;
      } catch (error) {
        if (error instanceof ApiError && error.status === 401) {
          login(used ? "This link was used already, or has expired." : app ? "Your login has ended. Log in to continue where you were." : "");
          return;
        }
        fill(root, h("p", { class: "starting", role: "status" }, error instanceof ApiError && error.status === 0
          ? "The server cannot be reached. Trying again…" : error instanceof Error ? error.message : String(error)));
        await new Promise((resolve) => setTimeout(resolve, pause));
      }
    }
  };
  const login = (/** @type {string} */ reason) => {
    app?.pause();
    showLogin(root, reason, enter);
  };
  loggedOut.addEventListener("out", () => app?.running && login("Your login has ended. Log in to continue where you were."));
  if (used) toast("This link was used already.");
  prepareNotifications();
  if (offered) await useLink(offered);
  await enter();
}

/**
 * Logs in with a link to which another site has led. Asks first if the browser is logged in: the link may be somebody else's.
 *
 * @param {string} code
 */
async function useLink(code) {
  const me = await get("me").catch(() => null);
  if (me && !confirm(`You are logged in as ${visible(me.name)}. Another site led here with a login link. Log in with that link instead?`)) return;
  await post("login", { secret: code }).catch(() => toast("This link was used already, or has expired."));
}

export class App extends EventTarget {
  /**
   * @param {HTMLElement} root
   * @param {Me} me
   */
  constructor(root, me) {
    super();
    this.root = root;
    this.me = me;
    this.running = true;
    this.feed = new Feed();
    /** Session that is shown. @type {string | null} */
    this.current = null;
    /** @type {SessionView | null} */
    this.view = null;
    this.count = h("span", { class: "count", hidden: true });
    this.inboxLink = h("a", { href: "#/inbox", class: "tab" }, icon(icons.inbox), h("span", {}, "Inbox"), this.count);
    this.sessionsLink = h("a", { href: "#/sessions", class: "tab" }, icon(icons.sessions), h("span", {}, "Sessions"));
    this.offline = h("div", { class: "offline", role: "status" });
    this.conversation = h("section", { id: "conversation", "aria-label": "Conversation", tabindex: -1 });
    /** @type {HTMLElement | null} */
    this.inbox = null;
    this.inbox = inboxRegion(this);
    this.shell = this.layout();
    fill(this.root, this.shell);
    this.onroute = () => this.route();
    addEventListener("hashchange", this.onroute);
    this.feed.addEventListener("connection", () => this.showConnection());
    this.feed.start();
    this.route();
  }

  /** Whether the role of the user is this one or a stronger one. @param {string} role */
  may(role) {
    return ROLES.indexOf(this.me.role) >= ROLES.indexOf(role);
  }

  layout() {
    const user = h("button", {
      type: "button", class: "plain user-button", "aria-haspopup": "dialog", onclick: () => this.account(),
    }, h("span", { "aria-hidden": "true" }, visible(this.me.name).slice(0, 2).toUpperCase()), h("span", { class: "sr" }, `Account: ${visible(this.me.name)}`));
    const header = h("header", { class: "top" },
      h("h1", {}, h("a", { href: "#/", class: "brand" }, logo(), h("span", {}, "Baton"))),
      h("nav", { "aria-label": "Main" }, this.inboxLink, this.sessionsLink),
      this.may("driver") ? h("button", { type: "button", class: "primary new", onclick: () => { location.hash = "#/new"; } }, icon(icons.plus), h("span", {}, "New session")) : null,
      user,
    );
    const main = h("main", {}, sessionsRegion(this), this.conversation, this.inbox);
    return [h("a", { class: "skip", href: "#conversation", onclick: (/** @type {Event} */ event) => { event.preventDefault(); this.conversation.focus(); } }, "Skip to the conversation"),
      header, this.offline, main, h("div", { id: "toasts", role: "status", "aria-live": "polite" })];
  }

  /** Shows the part of the page that the address names. */
  route() {
    const [, name = "", id = ""] = location.hash.split("/");
    const session = name === "s" && id ? decodeURIComponent(id) : null;
    const screen = session ? "session" : ["new", "sessions", "inbox"].includes(name) ? name : "start";
    const isStart = screen === "start";
    this.root.dataset.screen = screen;
    for (const [link, names] of /** @type {[HTMLElement, string[]][]} */ ([[this.inboxLink, ["inbox", "start"]], [this.sessionsLink, ["sessions"]]])) {
      if (names.includes(screen)) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    if (session) this.open(session);
    else if (screen === "new" || (isStart && !this.view) || (!this.view && !this.current)) this.openNew(screen === "new");
    this.dispatchEvent(new Event("route"));
    this.showDocked();
  }

  /** @param {string} session */
  open(session) {
    if (this.current === session && this.view) return;
    this.view?.close();
    this.current = session;
    this.view = new SessionView(this, session);
    fill(this.conversation, this.view.element);
    this.view.start();
  }

  /** @param {boolean} focus */
  openNew(focus) {
    this.view?.close();
    this.view = null;
    this.current = null;
    const form = newSession(this);
    fill(this.conversation, form.element);
    if (focus) form.focus();
  }

  /** On a narrow screen, requests of the shown session are docked above its composer. */
  showDocked() {
    const waits = this.current !== null && this.root.dataset.screen === "session" && this.feed.requests.has(this.current);
    this.root.toggleAttribute("data-docked", waits);
    for (const article of this.inbox?.querySelectorAll("article") ?? []) {
      article.classList.toggle("of-current", article.getAttribute("data-session") === this.current);
    }
  }

  /** @param {number} count */
  showCount(count) {
    this.count.hidden = count === 0;
    fill(this.count, count, h("span", { class: "sr" }, " waiting"));
    document.title = count ? `(${count}) Baton` : "Baton";
    const badge = /** @type {any} */ (navigator);
    if (count) badge.setAppBadge?.(count)?.catch?.(() => {});
    else badge.clearAppBadge?.()?.catch?.(() => {});
  }

  showConnection() {
    clearTimeout(this.offlineTimer);
    if (this.feed.connected) {
      fill(this.offline);
      return;
    }
    // A restart of the server is over before anybody can read this.
    this.offlineTimer = setTimeout(() => {
      if (!this.feed.connected && this.running) fill(this.offline, "Connection lost. Reconnecting…");
    }, 1200);
  }

  async account() {
    const pressed = await ask("Account", [
      h("p", {}, "Logged in as ", h("strong", {}, visible(this.me.name)), ` (${this.me.role}).`),
      notificationsSection(),
      h("p", { class: "hint" }, `Baton ${visible(this.me.version)}`),
    ], [{ name: "out", label: "Log out", class: "danger" }]);
    if (pressed !== "out") return;
    await turnOff().catch(() => {});
    await post("logout").catch(() => {});
    location.reload();
  }

  /** Stops the streams, for the time of a login. */
  pause() {
    this.running = false;
    this.feed.stop();
    this.view?.conversation.stop();
  }

  /** Continues where the page was. */
  resume() {
    this.running = true;
    fill(this.root, this.shell);
    this.feed.start();
    const { current } = this;
    if (current) {
      this.view?.close();
      this.view = null;
      this.open(current);
    }
  }

  close() {
    this.pause();
    removeEventListener("hashchange", this.onroute);
  }
}

function logo() {
  const mark = icon("M4 16L16 4");
  mark.classList.add("logo");
  return mark;
}

/**
 * Returns the choices for a model, the server's default first.
 *
 * @param {HTMLSelectElement} select
 * @param {string | null} current
 */
async function fillModels(select, current) {
  const add = (/** @type {string} */ value, /** @type {string} */ label) => select.append(h("option", { value }, label));
  fill(select);
  if (!current) add("", "Default model");
  else add(current, visible(current));
  try {
    const { models } = await get("models");
    for (const model of models) {
      const id = model.id ?? model.name;
      if (id && id !== current) add(id, visible(model.name && model.name !== id ? `${model.name} (${id})` : id));
    }
  } catch {
    // The provider cannot be reached: the default stays.
  }
}

/**
 * Creates the form for a new session. Its prompt starts the session.
 *
 * @param {App} app
 */
function newSession(app) {
  const heading = h("h2", { id: freshId() }, "New session");
  if (!app.may("driver")) {
    return { element: h("div", { class: "placeholder" }, h("h2", {}, "No session is open"), h("p", { class: "hint" }, "Choose one in the list.")), focus() {} };
  }
  const directoryId = freshId();
  const modelId = freshId();
  const permissionId = freshId();
  const directory = h("input", { id: directoryId, type: "text", value: app.me.cwd, spellcheck: "false", autocapitalize: "off", autocomplete: "off" });
  const model = h("select", { id: modelId });
  const permission = h("select", { id: permissionId }, h("option", { value: "manual" }, "Ask for permission"), h("option", { value: "allow-all" }, "Run all tools without asking"));
  fillModels(model, null);
  let id = randomId();
  const compose = composer(app, {
    draft: "new",
    session: null,
    submit: async (prompt) => {
      const settings = { id, cwd: directory.value || undefined, model: model.value || undefined, questions: true, trackFiles: true, allowAllTools: permission.value === "allow-all" };
      try {
        await post("sessions", settings);
      } catch (error) {
        // Created by an attempt whose response was lost.
        if (!(error instanceof ApiError && error.code === "exists")) throw error;
      }
      const { key, ...body } = prompt;
      await post(`sessions/${encodeURIComponent(id)}/prompts`, { ...body, immediate: false }, { "Idempotency-Key": key });
      const created = id;
      id = randomId();
      location.hash = `#/s/${encodeURIComponent(created)}`;
    },
  });
  const element = h("div", { class: "new-session" },
    h("div", { class: "hero" }, heading, h("p", { class: "hint" }, "Say what to do. The session runs on the server, whether this page stays open or not.")),
    h("div", { class: "fields" },
      h("div", {}, h("label", { for: directoryId }, "Directory"), directory),
      h("div", {}, h("label", { for: modelId }, "Model or engine"), model),
      h("div", {}, h("label", { for: permissionId }, "Tools"), permission)),
    compose.element);
  return { element, focus: compose.focus };
}

/** One open session: head, conversation, queue, composer. */
class SessionView {
  /**
   * @param {App} app
   * @param {string} session
   */
  constructor(app, session) {
    this.app = app;
    this.session = session;
    this.path = `sessions/${encodeURIComponent(session)}`;
    this.closed = false;
    /** @type {any} */
    this.state = null;
    this.title = h("h2", { class: "session-title" }, "…");
    this.facts = h("p", { class: "meta" });
    this.queue = h("div", { class: "queue-place" });
    this.waits = h("div", { class: "waiting", role: "status" });
    this.left = h("div", { class: "left-place" });
    this.conversation = new Conversation(app, session, {
      stateful: () => this.refreshSoon(),
      gone: () => this.gone(),
      actions: (event) => this.actionsOf(event),
    });
    this.compose = app.may("driver") ? composer(app, {
      draft: session,
      session,
      submit: async ({ key, ...prompt }) => {
        await post(`${this.path}/prompts`, prompt, { "Idempotency-Key": key });
        this.conversation.toEnd();
      },
    }) : null;
    this.modelId = freshId();
    this.modeId = freshId();
    this.permissionId = freshId();
    this.model = h("select", { id: this.modelId, onchange: () => this.change({ model: this.model.value }) });
    this.mode = h("select", { id: this.modeId, onchange: () => this.change({ mode: this.mode.value }) },
      ["interactive", "plan", "autopilot"].map((mode) => h("option", { value: mode }, mode)));
    this.permission = h("select", { id: this.permissionId, onchange: () => this.change({ permissions: this.permission.value }) },
      h("option", { value: "manual" }, "ask"), h("option", { value: "assisted" }, "assisted"), h("option", { value: "allow-all" }, "allow all"));
    this.element = h("div", { class: "session-view" }, this.head(), this.conversation.element, this.waits, this.left, this.queue,
      this.compose?.element ?? h("p", { class: "hint read-only" }, `Your role (${app.me.role}) can watch${app.may("approver") ? " and answer" : ""}, not prompt.`));
    this.onrequests = () => this.showWaiting();
    app.feed.addEventListener("requests", this.onrequests);
  }

  head() {
    const settings = h("details", { class: "settings" }, h("summary", { "aria-label": "Session settings", title: "Settings and actions" }, icon(icons.more)),
      h("div", { class: "menu" },
        this.app.may("driver") ? [
          h("div", { class: "field" }, h("label", { for: this.modelId }, "Model"), this.model),
          h("div", { class: "field" }, h("label", { for: this.modeId }, "Mode"), this.mode),
          h("div", { class: "field" }, h("label", { for: this.permissionId }, "Permissions"), this.permission),
          h("hr", {}),
          h("button", { type: "button", class: "plain", onclick: () => this.rename() }, "Rename…"),
          h("button", { type: "button", class: "plain", onclick: () => this.fork() }, "Fork"),
        ] : null,
        h("a", { class: "button plain", href: url(`${this.path}/export`), download: `${this.session}.jsonl` }, "Export"),
        this.app.may("driver") ? h("button", { type: "button", class: "plain danger", onclick: () => this.remove() }, "Delete…") : null));
    this.settings = settings;
    settings.addEventListener("toggle", () => settings.open && this.app.may("driver") && fillModels(this.model, this.state?.session.model ?? null));
    settings.addEventListener("keydown", (event) => {
      if (event.key === "Escape") {
        settings.open = false;
        settings.querySelector("summary")?.focus();
      }
    });
    addEventListener("click", (event) => {
      if (!settings.contains(/** @type {Node} */ (event.target))) settings.open = false;
    });
    return h("div", { class: "session-head" },
      h("a", { href: "#/sessions", class: "back button plain", "aria-label": "Back to the sessions" }, icon(icons.back)),
      h("div", { class: "names" }, this.title, this.facts), settings);
  }

  start() {
    this.refresh();
    this.conversation.start();
    this.showWaiting();
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
    this.conversation.stop();
    this.app.feed.removeEventListener("requests", this.onrequests);
  }

  gone() {
    if (this.closed) return;
    fill(this.element, h("div", { class: "placeholder" }, h("h2", {}, "This session does not exist"), h("p", {}, h("a", { href: "#/sessions" }, "All sessions"))));
  }

  refreshSoon() {
    if (this.timer) return;
    this.timer = setTimeout(() => {
      this.timer = undefined;
      this.refresh();
    }, 60);
  }

  async refresh() {
    try {
      const state = await get(`${this.path}/state`);
      if (this.closed) return;
      this.state = state;
      this.showState();
    } catch (error) {
      if (error instanceof ApiError && error.status === 409) fill(this.facts, visible(error.message));
    }
  }

  showState() {
    const { session, mode, permissions, running, queue, usage, watching, paused } = this.state;
    fill(this.title, brief(visible(session.title || "New session"), 160));
    const tokens = usage.reduce((/** @type {number} */ sum, /** @type {any} */ each) => sum + each.inputTokens + each.outputTokens, 0);
    const calls = usage.reduce((/** @type {number} */ sum, /** @type {any} */ each) => sum + each.calls, 0);
    fill(this.facts,
      running ? h("span", { class: "state busy" }, "working") : null,
      h("span", { class: "path", title: exact(session.cwd ?? "") }, exact(session.cwd ?? "")),
      session.branch ? h("span", {}, visible(session.branch)) : null,
      session.model ? h("span", {}, visible(session.model)) : null,
      mode !== "interactive" ? h("span", {}, mode) : null,
      permissions === "allow-all" ? h("span", { class: "problem" }, "allow all") : null,
      tokens ? h("span", { title: usage.map((/** @type {any} */ each) => `${each.model}: ${each.inputTokens} in, ${each.outputTokens} out, ${each.calls} calls`).join("\n") }, `${compact(tokens)} tokens, ${calls} ${calls === 1 ? "call" : "calls"}`) : null,
      session.cost ? h("span", {}, money(session.cost)) : null,
      watching > 1 ? h("span", {}, `${watching} watching`) : null,
      paused ? h("span", {}, "queue paused") : null);
    this.mode.value = mode;
    this.permission.value = permissions;
    if (!this.settings?.open) fill(this.model, h("option", { value: session.model ?? "" }, visible(session.model ?? "Default model")));
    if (!this.queue.contains(document.activeElement) || !this.queue.querySelector("form")) {
      fill(this.queue, queueList(this.session, queue, this.app.may("driver"), () => {
        /** @type {HTMLElement | null} */ (document.activeElement)?.blur?.();
        this.refresh();
      }));
    }
    this.compose?.update({ busy: session.busy || running, running });
    this.showLeft();
  }

  /** Work that a stopped server left continues only when somebody says so: it may not be wanted any more. */
  showLeft() {
    const { left, requests } = this.state;
    if (!left || requests.length || !this.app.may("driver")) {
      fill(this.left);
      return;
    }
    fill(this.left, h("div", { class: "left-work" }, h("span", {}, "The server stopped during this turn."),
      h("button", {
        type: "button", class: "primary",
        onclick: async () => {
          await post(`${this.path}/resume`).catch((error) => toast(error.message, "error"));
          this.refresh();
        },
      }, "Continue turn")));
  }

  showWaiting() {
    const waits = (this.app.feed.requests.get(this.session) ?? []).length;
    fill(this.waits, waits ? h("button", { type: "button", class: "plain", onclick: () => this.toRequest() },
      waits === 1 ? "Waits for an answer" : `${waits} requests wait for an answer`) : null);
  }

  toRequest() {
    const article = /** @type {HTMLElement | null} */ (this.app.inbox?.querySelector(`article[data-session="${CSS.escape(this.session)}"]`));
    article?.scrollIntoView({ block: "nearest", behavior: "smooth" });
    /** @type {HTMLElement | null} */ (article?.querySelector("h3"))?.focus({ preventScroll: true });
  }

  /** @param {any} change */
  async change(change) {
    try {
      await call("PATCH", this.path, change);
    } catch (error) {
      toast(error instanceof Error ? error.message : String(error), "error");
    }
    this.refresh();
  }

  async rename() {
    const id = freshId();
    const field = h("input", { id, type: "text", value: this.state?.session.title ?? "", required: true });
    setTimeout(() => field.select(), 0);
    if ((await ask("Rename session", [h("label", { for: id }, "Name"), field], [{ name: "ok", label: "Rename" }])) === "ok" && field.value.trim()) {
      await this.change({ name: field.value.trim() });
    }
  }

  /** @param {string} [until] */
  async fork(until) {
    try {
      const copy = await post(`${this.path}/fork`, until ? { until } : {});
      location.hash = `#/s/${encodeURIComponent(copy.id)}`;
      toast("This is the copy.");
    } catch (error) {
      toast(error instanceof Error ? error.message : String(error), "error");
    }
  }

  async remove() {
    const answer = await ask("Delete this session?", [h("p", {}, "The conversation and its files in Baton's home are deleted for everybody. Files in the project stay.")],
      [{ name: "ok", label: "Delete", class: "danger" }]);
    if (answer !== "ok") return;
    try {
      await call("DELETE", this.path);
      location.hash = "#/sessions";
      this.app.openNew(false);
    } catch (error) {
      toast(error instanceof Error ? error.message : String(error), "error");
    }
  }

  /**
   * Returns the actions of a prompt in the conversation.
   *
   * @param {any} event
   */
  actionsOf(event) {
    if (!this.app.may("driver")) return null;
    return h("span", { class: "actions" },
      h("button", { type: "button", class: "plain", onclick: () => this.rewind(event) }, "Rewind"),
      h("button", { type: "button", class: "plain", onclick: () => this.fork(event.id) }, "Fork"));
  }

  /** @param {any} event */
  async rewind(event) {
    /** @type {any} */
    let preview;
    try {
      preview = await get(`${this.path}/rewind?event=${encodeURIComponent(event.id)}`);
    } catch (error) {
      toast(error instanceof Error ? error.message : String(error), "error");
      return;
    }
    if (preview.obstacle) {
      toast("The session is working. Cancel the turn first.");
      return;
    }
    const files = preview.files.map((/** @type {any} */ file) => h("li", {}, h("code", {}, exact(file.path)), ` ${file.changeType}, +${file.linesAdded} −${file.linesRemoved}`));
    const answer = await ask("Rewind to before this prompt?", [
      h("blockquote", {}, brief(visible(event.data.content), 200)),
      h("p", {}, "The prompt and everything after it leave the conversation. The history keeps them."),
      files.length ? h("div", {}, h("p", {}, "Changes to files that can be undone:"), h("ul", {}, files))
        : h("p", { class: "hint" }, preview.canRestoreFiles ? "No files were changed since." : "Files stay as they are: this session does not track them."),
    ], [
      ...(files.length ? [{ name: "files", label: "Rewind, restore files", class: "primary" }] : []),
      { name: "only", label: "Rewind conversation", class: files.length ? "" : "primary" },
    ]);
    if (!answer) return;
    try {
      const result = await post(`${this.path}/rewind`, { event: event.id, files: answer === "files" });
      toast(result.outcome === "success" ? "Rewound." : `Not rewound: ${result.outcome}. ${result.error ?? ""}`);
    } catch (error) {
      toast(error instanceof Error ? error.message : String(error), "error");
    }
  }
}

// @ts-check
/**
 * The conversation of a session: a window at the end of its history, which grows upwards on demand and follows the stream.
 *
 * Durable events have sequence numbers. The cursor is the last one that was shown; a new connection continues after it, so
 * nothing is missed or shown twice. Streamed parts have none: they are shown until the durable event replaces them.
 */

import { ApiError, follow, get, render } from "./api.js";
import { fill, h, showRendered } from "./dom.js";
import { ToolCard } from "./tool.js";
import { brief, clock, exact, visible } from "./text.js";

/** @typedef {import("./app.js").App} App */
/** @typedef {{ seq?: number, event: any, html?: string }} Entry */

/** Events that are read at once. */
const PAGE = 200;
/** Items above which the oldest are removed, while the reader is at the end. */
const MAX_ITEMS = 400;
/** Longest streamed text that is rendered as Markdown while it grows. */
const MAX_LIVE_RENDER = 40_000;
/** Time between two renderings of a growing text, in milliseconds. */
const RENDER_PAUSE = 250;

/** Types of events that change what `/state` returns. */
const STATEFUL = new Set([
  "baton.prompt_accepted", "baton.prompt_moved", "baton.prompt_amended", "baton.queue_held",
  "baton.prompts_held", "baton.turn_settled",
  "pending_messages.modified", "user.message", "session.idle", "session.mode_changed", "session.model_change",
  "session.permissions_changed", "baton.renamed", "assistant.usage", "session.snapshot_rewind", "baton.turn_opened",
]);

/**
 * Who did something, as the end of a note. All holders of the server's token have one name, which tells nobody anything.
 *
 * @param {string | undefined} name
 */
function byName(name) {
  return name && name !== "HTTP API" ? ` by ${visible(name)}` : "";
}

export class Conversation {
  /**
   * @param {App} app
   * @param {string} session
   * @param {{ stateful: () => void, gone: () => void, actions: (event: any) => Node | null }} hooks
   */
  constructor(app, session, hooks) {
    this.app = app;
    this.session = session;
    this.hooks = hooks;
    this.list = h("div", { class: "items" });
    this.earlier = h("button", { type: "button", class: "plain wide", hidden: true, onclick: () => this.loadEarlier() }, "Show earlier");
    this.log = h("div", { class: "log", role: "log", "aria-label": "Conversation", tabindex: 0 }, this.earlier, this.list);
    this.jump = h("button", { type: "button", class: "jump", hidden: true, onclick: () => this.toEnd() }, "Newest ↓");
    this.element = h("div", { class: "log-frame" }, this.log, this.jump);
    /** Last durable event that was shown. */
    this.cursor = 0;
    /** First durable event that was read. */
    this.first = 0;
    this.atEnd = true;
    this.stopped = false;
    this.loading = false;
    this.busyWithEarlier = false;
    this.reset();
    this.log.addEventListener("scroll", () => this.scrolled(), { passive: true });
    new ResizeObserver(() => this.atEnd && this.toEnd()).observe(this.log);
    new ResizeObserver(() => this.atEnd && this.toEnd()).observe(this.list);
  }

  /** Forgets everything that is shown. */
  reset() {
    /** @type {Map<string, ToolCard>} */
    this.tools = new Map();
    /** Results of calls whose start is not loaded. @type {Map<string, Entry>} */
    this.orphans = new Map();
    /** @type {Map<string, HTMLElement>} */
    this.agents = new Map();
    /** @type {Map<string, Streamed>} */
    this.streams = new Map();
    /** @type {Map<string, string>} */
    this.authors = new Map();
    /** @type {Map<string, string>} */
    this.requests = new Map();
    /** Parts of the history that rewinds removed, as [from, to). @type {[number, number][]} */
    this.removed = [];
    /** Reasoning that was shown last. */
    this.lastReasoning = "";
    this.list.replaceChildren();
  }

  async start() {
    await this.loadEnd();
    if (this.stopped) return;
    this.stopFollowing = follow({
      path: () => `sessions/${encodeURIComponent(this.session)}/events?after=${this.cursor}`,
      opened: () => {
        this.dropStreams();
        this.hooks.stateful();
      },
      receive: ({ id, data }) => this.receive({ seq: id ? Number(id) : undefined, event: data }),
      refused: (error) => this.refused(error),
    });
  }

  stop() {
    this.stopped = true;
    this.stopFollowing?.();
  }

  /** @param {ApiError} error */
  refused(error) {
    if (error.status === 404) this.hooks.gone();
    // The history is another one than the one shown: start again.
    if (error.code === "cursor_ahead") this.loadEnd();
    return error.status !== 404 && error.status !== 401;
  }

  /** Reads the end of the history. */
  async loadEnd() {
    for (let attempt = 0; !this.stopped; attempt += 1) {
      try {
        const page = await this.page(`before=${Number.MAX_SAFE_INTEGER}`);
        this.reset();
        this.first = page.events[0]?.seq ?? 1;
        this.cursor = page.events.at(-1)?.seq ?? 0;
        page.events.forEach((/** @type {Entry} */ entry) => this.show(entry));
        this.earlier.hidden = !page.hasMore;
        this.toEnd();
        return;
      } catch (error) {
        if (error instanceof ApiError && (error.status === 404 || error.status === 401)) {
          if (error.status === 404) this.hooks.gone();
          return;
        }
        await new Promise((resolve) => setTimeout(resolve, Math.min(4000, 300 * 2 ** attempt)));
      }
    }
  }

  /** @param {string} which */
  page(which) {
    return get(`sessions/${encodeURIComponent(this.session)}/events?${which}&limit=${PAGE}&rendered=true`);
  }

  /** Reads the page before the first item, and keeps the view where it is. */
  async loadEarlier() {
    if (this.busyWithEarlier || this.first <= 1) return;
    this.busyWithEarlier = true;
    try {
      const page = await this.page(`before=${this.first}`);
      const items = page.events.filter((/** @type {Entry} */ entry) => !this.isRemoved(entry.seq ?? 0));
      for (const entry of page.events) if (entry.event.type === "baton.history_truncated") this.noteRemoved(entry);
      const height = this.log.scrollHeight - this.log.scrollTop;
      const place = document.createDocumentFragment();
      items.forEach((/** @type {Entry} */ entry) => this.show(entry, place));
      this.list.prepend(place);
      this.first = page.events[0]?.seq ?? 1;
      this.earlier.hidden = !page.hasMore || this.first <= 1;
      this.log.scrollTop = this.log.scrollHeight - height;
    } catch {
      // The button stays.
    }
    this.busyWithEarlier = false;
  }

  /** Removes the oldest items of a long window. They can be read again. */
  trim() {
    const surplus = this.list.childElementCount - MAX_ITEMS;
    if (surplus < 50 || !this.atEnd) return;
    for (let at = 0; at < surplus; at += 1) {
      const item = /** @type {HTMLElement | null} */ (this.list.firstElementChild);
      if (!item) break;
      for (const [id, card] of this.tools) if (item.contains(card.element)) this.tools.delete(id);
      item.remove();
    }
    const first = /** @type {HTMLElement | null} */ (this.list.querySelector("[data-seq]"));
    if (first) {
      this.first = Number(first.dataset.seq);
      this.earlier.hidden = this.first <= 1;
    }
  }

  /** @param {Entry} entry */
  receive(entry) {
    if (entry.seq !== undefined) {
      if (entry.seq <= this.cursor) return;
      this.cursor = entry.seq;
    }
    this.show(entry);
    if (STATEFUL.has(entry.event.type)) this.hooks.stateful();
    this.trim();
    if (!this.atEnd) this.jump.hidden = false;
  }

  /** Forgets streamed parts: after a break, the durable events tell the rest. */
  dropStreams() {
    for (const stream of this.streams.values()) stream.element.remove();
    this.streams.clear();
  }

  /** @param {number} seq */
  isRemoved(seq) {
    return this.removed.some(([from, to]) => seq >= from && seq < to);
  }

  /** @param {Entry} entry */
  noteRemoved(entry) {
    this.removed.push([entry.event.data.fromSeq, entry.seq ?? Number.MAX_SAFE_INTEGER]);
  }

  scrolled() {
    this.atEnd = this.log.scrollHeight - this.log.scrollTop - this.log.clientHeight < 60;
    if (this.atEnd) this.jump.hidden = true;
    if (this.log.scrollTop < 200 && !this.earlier.hidden) this.loadEarlier();
  }

  toEnd() {
    this.atEnd = true;
    this.jump.hidden = true;
    this.log.scrollTop = this.log.scrollHeight;
  }

  /**
   * Returns where the items of an event belong: into its sub-agent, or into the list.
   *
   * @param {any} event
   * @param {ParentNode & Node} place
   */
  placeOf(event, place) {
    return (event.agentId && this.agents.get(event.agentId)) || place;
  }

  /**
   * Adds an item.
   *
   * @param {Entry} entry
   * @param {ParentNode & Node} place
   * @param {HTMLElement} item
   */
  add(entry, place, item) {
    item.classList.add("item");
    if (entry.seq !== undefined) item.dataset.seq = String(entry.seq);
    this.placeOf(entry.event, place).appendChild(item);
  }

  /**
   * @param {Entry} entry
   * @param {ParentNode & Node} place
   * @param {string} text
   * @param {string} [style]
   */
  note(entry, place, text, style = "") {
    this.add(entry, place, h("p", { class: `note ${style}` }, text));
  }

  /**
   * Shows an event.
   *
   * @param {Entry} entry
   * @param {ParentNode & Node} [place]
   */
  show(entry, place = this.list) {
    const { event } = entry;
    const data = event.data ?? {};
    switch (event.type) {
      case "baton.prompt_accepted":
        if (data.prompt?.by) this.authors.set(data.promptId, data.prompt.by);
        break;
      case "user.message":
        this.add(entry, place, this.userMessage(event));
        break;
      case "assistant.message_delta":
        this.stream(event, data.messageId, "message", data.deltaContent);
        break;
      case "assistant.reasoning_delta":
        this.stream(event, data.reasoningId, "reasoning", data.deltaContent);
        break;
      case "baton.stream_so_far":
        this.streamSoFar(event);
        break;
      case "assistant.reasoning":
        this.endStream(data.reasoningId);
        this.lastReasoning = data.content;
        this.add(entry, place, reasoning(data.content));
        break;
      case "assistant.message":
        this.assistantMessage(entry, place);
        break;
      case "tool.execution_start":
        this.toolStart(entry, place);
        break;
      case "tool.execution_partial_result":
        this.tools.get(data.toolCallId)?.append(data.partialOutput ?? "");
        break;
      case "tool.execution_progress":
        this.tools.get(data.toolCallId)?.decided(visible(data.progressMessage));
        break;
      case "tool.execution_complete":
        this.toolComplete(entry, place);
        break;
      case "permission.requested":
        this.permissionRequested(data);
        break;
      case "permission.completed":
        this.permissionCompleted(data);
        break;
      case "baton.request_opened":
        if (data.toolCallId) {
          this.requests.set(data.requestId, data.toolCallId);
          this.tools.get(data.toolCallId)?.state("waiting");
        }
        break;
      case "baton.request_closed":
        if (data.by) this.tools.get(this.requests.get(data.requestId) ?? "")?.decided(`Answered${byName(data.by)}`);
        break;
      case "subagent.started":
        this.agentStarted(entry, place);
        break;
      case "subagent.completed":
      case "subagent.failed":
        this.agentEnded(event);
        break;
      case "baton.history_truncated":
        this.rewound(entry, place);
        break;
      default:
        this.showNote(entry, place);
    }
  }

  /**
   * @param {Entry} entry
   * @param {ParentNode & Node} place
   */
  showNote(entry, place) {
    const { event } = entry;
    const data = event.data ?? {};
    switch (event.type) {
      case "session.error":
        this.add(entry, place, h("div", { class: "error-item" }, h("strong", {}, "Error"), h("p", {}, visible(data.message)),
          data.stack ? h("details", {}, h("summary", {}, "Details"), h("pre", { tabindex: 0 }, visible(data.stack))) : null));
        break;
      case "session.warning":
        this.note(entry, place, visible(data.message), "warning");
        break;
      case "session.info":
        this.note(entry, place, visible(data.message));
        break;
      case "model.call_failure":
        this.note(entry, place, `Model call failed: ${visible(data.errorMessage ?? data.statusCode ?? "unknown")}${data.batonRetryInMs === undefined ? "" : "; trying again"}`, "warning");
        break;
      case "abort":
        this.note(entry, place, `Cancelled${byName(data.batonBy)}`);
        break;
      case "baton.turn_settled":
        this.dropStreams();
        if (data.outcome !== "completed" && data.outcome !== "cancelled") this.note(entry, place, `${data.outcome}: ${visible(data.reason)}`, "warning");
        break;
      case "session.model_change":
        this.note(entry, place, `Model: ${visible(data.newModel)}`);
        break;
      case "session.mode_changed":
        this.note(entry, place, `Mode: ${visible(data.newMode)}`);
        break;
      case "session.permissions_changed":
        this.note(entry, place, data.mode === "allow-all" ? "All tools run without asking" : `Permissions: ${visible(data.mode)}`);
        break;
      case "session.compaction_complete":
        if (data.success) this.add(entry, place, this.summary(entry));
        break;
      case "baton.shell_run":
        this.add(entry, place, h("details", { class: "tool" }, h("summary", {}, `Command of a user: ${brief(exact(data.command), 120)}`),
          h("pre", { class: "output", tabindex: 0 }, visible(data.output))));
        break;
      case "baton.shell_started":
        this.note(entry, place, `Command of a user: ${brief(exact(data.command), 120)}`);
        break;
      case "baton.renamed":
        if (data.byUser) this.note(entry, place, `Renamed: ${visible(data.name)}`);
        break;
      default:
    }
  }

  /** @param {any} event */
  userMessage(event) {
    const { content, attachments = [], delivery, messageId } = event.data;
    const by = this.authors.get(messageId);
    return h("article", { class: "user", "aria-label": "Prompt of a user", "data-event": event.id },
      h("div", { class: "bubble" }, visible(content)),
      attachments.length ? h("ul", { class: "chips" }, attachments.map((/** @type {any} */ attached) => h("li", {}, attachmentView(attached)))) : null,
      h("div", { class: "meta" },
        by && by !== "HTTP API" ? h("span", {}, visible(by)) : null,
        delivery === "steering" ? h("span", {}, "steering") : null,
        h("time", { datetime: event.timestamp, title: clock(event.timestamp) }, new Date(event.timestamp).toLocaleTimeString([], { timeStyle: "short" })),
        this.hooks.actions(event),
      ));
  }

  /**
   * @param {Entry} entry
   * @param {ParentNode & Node} place
   */
  assistantMessage(entry, place) {
    const { event, html } = entry;
    const { messageId, content, reasoningText, toolRequests = [] } = event.data;
    const streamed = this.endStream(messageId);
    for (const stream of [...this.streams.values()]) if (stream.kind === "reasoning") this.endStream(stream.id);
    // Most messages repeat the reasoning of the event before them.
    if (reasoningText && reasoningText !== this.lastReasoning) this.add(entry, place, reasoning(reasoningText));
    this.lastReasoning = "";
    if (content?.trim()) {
      const body = h("div", { class: "rendered" });
      const item = h("article", { class: "assistant", "aria-label": "Answer of the model" }, body);
      if (html !== undefined) showRendered(body, html);
      else {
        if (streamed?.html) showRendered(body, streamed.html);
        else body.append(h("div", { class: "plain-text" }, visible(content)));
        render(content).then((rendered) => showRendered(body, rendered), () => {});
      }
      this.add(entry, place, item);
    }
    for (const request of toolRequests) {
      if (this.tools.has(request.toolCallId)) continue;
      const card = this.card(request.toolCallId);
      card.start({ ...request, toolName: request.name });
      this.add(entry, place, card.holder);
    }
  }

  /** @param {string} id */
  card(id) {
    let card = this.tools.get(id);
    if (!card) {
      card = new ToolCard(id);
      this.tools.set(id, card);
    }
    return card;
  }

  /**
   * @param {Entry} entry
   * @param {ParentNode & Node} place
   */
  toolStart(entry, place) {
    const { data } = entry.event;
    const isNew = !this.tools.has(data.toolCallId);
    const card = this.card(data.toolCallId);
    const orphan = this.orphans.get(data.toolCallId);
    card.start(data);
    if (isNew) this.add(entry, place, card.holder);
    if (orphan) {
      this.orphans.delete(data.toolCallId);
      this.list.querySelector(`[data-orphan="${CSS.escape(data.toolCallId)}"]`)?.remove();
      card.complete(orphan.event.data);
    } else card.state("running");
  }

  /**
   * @param {Entry} entry
   * @param {ParentNode & Node} place
   */
  toolComplete(entry, place) {
    const { data } = entry.event;
    const card = this.tools.get(data.toolCallId);
    if (card) {
      card.complete(data);
      return;
    }
    // Its start is on an earlier page.
    this.orphans.set(data.toolCallId, entry);
    const alone = new ToolCard(data.toolCallId);
    alone.complete(data);
    alone.holder.dataset.orphan = data.toolCallId;
    this.add(entry, place, alone.holder);
  }

  /** @param {any} data */
  permissionRequested(data) {
    const call = data.permissionRequest?.toolCallId;
    if (!call) return;
    this.requests.set(data.requestId, call);
    const card = this.tools.get(call);
    card?.state("waiting");
  }

  /** @param {any} data */
  permissionCompleted(data) {
    const call = data.toolCallId ?? this.requests.get(data.requestId);
    const card = this.tools.get(call);
    if (!card) return;
    const kind = String(data.result?.kind ?? "");
    const approved = kind.startsWith("approved");
    if (data.batonBy) card.decided(`${approved ? "Allowed" : "Denied"}${byName(data.batonBy)}`);
    card.state(approved ? "running" : "failed");
  }

  /**
   * @param {Entry} entry
   * @param {ParentNode & Node} place
   */
  agentStarted(entry, place) {
    const { data, agentId } = entry.event;
    const id = agentId ?? data.agentId ?? data.toolCallId;
    const inside = h("div", { class: "items" });
    const state = h("span", { class: "badge" }, "working");
    const element = h("details", { class: "agent", open: true },
      h("summary", {}, h("span", { class: "tool-name" }, `Sub-agent: ${visible(data.agentDisplayName || data.agentName)}`), state), inside);
    element.dataset.agent = id;
    this.agents.set(id, inside);
    const card = this.tools.get(data.toolCallId);
    if (card) {
      card.children.hidden = false;
      card.children.append(element);
    } else this.add({ ...entry, event: { ...entry.event, agentId: undefined } }, place, element);
  }

  /** @param {any} event */
  agentEnded(event) {
    const inside = this.agents.get(event.agentId ?? event.data.toolCallId);
    const element = inside?.parentElement;
    if (!element) return;
    const failed = event.type === "subagent.failed";
    const badge = element.querySelector(":scope > summary .badge");
    if (badge) fill(badge, failed ? `failed: ${brief(visible(event.data.error), 80)}` : "done");
    if (!failed) element.removeAttribute("open");
  }

  /**
   * @param {Entry} entry
   * @param {ParentNode & Node} place
   */
  rewound(entry, place) {
    this.noteRemoved(entry);
    const from = entry.event.data.fromSeq;
    for (const item of [...this.list.querySelectorAll("[data-seq]")]) {
      const seq = Number(/** @type {HTMLElement} */ (item).dataset.seq);
      if (seq >= from && seq < (entry.seq ?? 0)) item.remove();
    }
    this.note(entry, place, "The conversation was rewound to here");
  }

  /** @param {Entry} entry */
  summary(entry) {
    const body = h("div", { class: "rendered" }, visible(entry.event.data.summaryContent ?? ""));
    if (entry.html !== undefined) showRendered(body, entry.html);
    else render(entry.event.data.summaryContent ?? "").then((html) => showRendered(body, html), () => {});
    return h("details", { class: "summary" }, h("summary", {}, "The conversation so far was summarised for the model"), body);
  }

  /**
   * Adds a part to a streamed text.
   *
   * @param {any} event
   * @param {string} id
   * @param {"message" | "reasoning"} kind
   * @param {string} part
   */
  stream(event, id, kind, part) {
    let stream = this.streams.get(id);
    if (!stream) {
      stream = new Streamed(id, kind);
      this.streams.set(id, stream);
      this.placeOf(event, this.list).appendChild(stream.element);
    }
    stream.append(part);
  }

  /**
   * Replaces what was streamed of an unfinished text: this reader has missed parts.
   *
   * @param {any} event
   */
  streamSoFar(event) {
    const data = event.data ?? {};
    const text = (data.cut ? "…" : "") + (data.text ?? "");
    if (data.toolCallId) return this.tools.get(data.toolCallId)?.replaceOutput(text);
    const id = data.messageId ?? data.reasoningId;
    if (typeof id !== "string") return;
    this.endStream(id);
    this.stream(event, id, data.messageId ? "message" : "reasoning", text);
  }

  /**
   * Removes a streamed text, which the durable event replaces.
   *
   * @param {string} id
   */
  endStream(id) {
    const stream = this.streams.get(id);
    this.streams.delete(id);
    stream?.end();
    return stream;
  }
}

/** A text while it is streamed. Parts are collected and shown once a frame. */
class Streamed {
  /**
   * @param {string} id
   * @param {"message" | "reasoning"} kind
   */
  constructor(id, kind) {
    this.id = id;
    this.kind = kind;
    this.text = "";
    this.html = "";
    this.scheduled = false;
    this.rendering = false;
    this.ended = false;
    this.body = h("div", { class: kind === "message" ? "rendered" : "plain-text" });
    this.tail = document.createTextNode("");
    this.plain = h("div", { class: "plain-text" });
    this.plain.append(this.tail);
    this.shownLength = 0;
    this.element = kind === "message"
      ? h("article", { class: "item assistant streaming", "aria-busy": "true", "aria-label": "Answer of the model" }, this.body, this.plain)
      : h("details", { class: "item reasoning streaming" }, h("summary", {}, "Thinking…"), this.plain);
  }

  /** @param {string} part */
  append(part) {
    this.text += part;
    if (this.scheduled) return;
    this.scheduled = true;
    requestAnimationFrame(() => this.draw());
  }

  draw() {
    this.scheduled = false;
    if (this.ended) return;
    // Appending to a text node costs as much as the part; replacing it would cost as much as the whole text.
    this.tail.appendData(visible(this.text.slice(this.shownLength)));
    this.shownLength = this.text.length;
    if (this.kind === "message" && !this.rendering && this.text.length < MAX_LIVE_RENDER) this.renderSoon();
  }

  renderSoon() {
    this.rendering = true;
    setTimeout(async () => {
      if (this.ended) return;
      const { length } = this.text;
      try {
        this.html = await render(this.text);
        if (this.ended) return;
        showRendered(this.body, this.html);
        // What came meanwhile stays plain until the next rendering.
        this.tail.data = visible(this.text.slice(length, this.shownLength));
      } catch {
        // The text is shown as it is.
      }
      this.rendering = false;
      if (this.text.length > length) this.renderSoon();
    }, RENDER_PAUSE);
  }

  end() {
    this.ended = true;
    this.element.remove();
  }
}

/** @param {string} text */
function reasoning(text) {
  return h("details", { class: "reasoning" }, h("summary", {}, "Thinking"), h("div", { class: "plain-text" }, visible(text)));
}

/** @param {any} attached */
function attachmentView(attached) {
  const image = /^image\/(png|jpeg|gif|webp)$/.test(attached.mimeType ?? "") && /^[A-Za-z0-9+/=]+$/.test(attached.data ?? "");
  const name = visible(attached.displayName ?? attached.path ?? attached.filePath ?? attached.type);
  return image ? h("img", { src: `data:${attached.mimeType};base64,${attached.data}`, alt: name, loading: "lazy" }) : name;
}


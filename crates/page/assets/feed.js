// @ts-check
/** All sessions and pending requests, kept up to date by the server's feed. */

import { ApiError, follow, get } from "./api.js";

/**
 * @typedef {object} SessionInfo
 * @property {string} id
 * @property {string | null} title
 * @property {string | null} cwd
 * @property {string | null} model
 * @property {boolean} busy
 * @property {number | null} [cost]
 * @property {number} [watching]
 * @property {number} head
 * @property {string} updatedAt
 * @property {{ host: string, pid: number } | null} [heldBy]
 */

/**
 * @typedef {object} Offer
 * @property {any} grant
 * @property {string} meaning
 */

/**
 * @typedef {object} PendingRequest
 * @property {string} sessionId
 * @property {string} requestId
 * @property {string} kind
 * @property {string | null} toolCallId
 * @property {string | null} toolName
 * @property {any} detail
 * @property {Offer[]} [offers]
 */

/** @param {PendingRequest} request */
const key = ({ sessionId, requestId }) => `${sessionId}/${requestId}`;

export class Feed extends EventTarget {
  constructor() {
    super();
    /** @type {Map<string, SessionInfo>} */
    this.sessions = new Map();
    /** @type {Map<string, PendingRequest[]>} */
    this.requests = new Map();
    /** Requests with an answer, which never wait again: what still lists them is older than the answer. @type {Set<string>} */
    this.answered = new Set();
    /** Head of each session as of its requests: what has a smaller one is older. @type {Map<string, number>} */
    this.heads = new Map();
    /** When each request was first seen here. @type {Map<string, number>} */
    this.since = new Map();
    this.connected = false;
    this.loaded = false;
    /** Number of times that the lists were read. */
    this.loads = 0;
    /** Changes that arrive while the lists are read. @type {{ type: string, data: any }[] | null} */
    this.held = null;
    /** @type {(() => void) | null} */
    this.stopFollowing = null;
  }

  start() {
    this.stop();
    this.stopFollowing = follow({
      path: () => "events",
      receive: (event) => {
        if (event.type === "ready") this.load();
        else if (this.held) this.held.push(event);
        else this.apply(event);
      },
      state: (connected) => {
        if (this.connected === connected) return;
        this.connected = connected;
        this.changed("connection");
      },
      refused: (error) => error.status !== 401,
    });
  }

  stop() {
    this.stopFollowing?.();
    this.stopFollowing = null;
  }

  /** Reads both lists, then applies the changes that came meanwhile. Tries again until it succeeds or the stream breaks. */
  async load() {
    this.loads += 1;
    const load = this.loads;
    this.held = [];
    for (let pause = 200; load === this.loads; pause = Math.min(pause * 2, 4000)) {
      try {
        const [{ sessions }, { requests, heads }] = await Promise.all([get("sessions?limit=500"), get("requests")]);
        if (load === this.loads) this.replace(sessions, requests, heads ?? {});
        return;
      } catch (error) {
        if (error instanceof ApiError && error.status === 401) return;
        await new Promise((resolve) => setTimeout(resolve, pause));
      }
    }
  }

  /**
   * @param {SessionInfo[]} sessions
   * @param {PendingRequest[]} requests
   * @param {Record<string, number>} heads
   */
  replace(sessions, requests, heads) {
    this.sessions = new Map(sessions.map((session) => [session.id, session]));
    this.heads = new Map(Object.entries(heads));
    this.requests = new Map();
    for (const request of requests) this.wait(request.sessionId, [...(this.requests.get(request.sessionId) ?? []), request]);
    this.loaded = true;
    const held = this.held ?? [];
    this.held = null;
    held.forEach((event) => this.apply(event));
    this.changed("sessions");
    this.changed("requests");
  }

  /** @param {{ type: string, data: any }} event */
  apply({ type, data }) {
    if (type === "deleted") {
      this.sessions.delete(data.id);
      const had = this.requests.delete(data.id);
      this.heads.delete(data.id);
      this.changed("sessions");
      if (had) this.changed("requests");
      return;
    }
    if (type !== "session") return;
    const { requests, ...info } = data;
    if (info.head < (this.heads.get(info.id) ?? 0)) return;
    const known = this.sessions.get(info.id);
    this.sessions.set(info.id, { ...known, ...info, model: info.model ?? known?.model ?? null });
    this.changed("sessions");
    this.heads.set(info.id, info.head);
    if (!requests || (!requests.length && !this.requests.has(info.id))) return;
    this.wait(info.id, requests.map((/** @type {PendingRequest} */ request) => ({ ...request, sessionId: info.id })));
    this.changed("requests");
  }

  /**
   * Sets the requests of a session, without those that were answered here.
   *
   * @param {string} session
   * @param {PendingRequest[]} requests
   */
  wait(session, requests) {
    const waiting = requests.filter((request) => !this.answered.has(key(request)));
    if (waiting.length) this.requests.set(session, waiting);
    else this.requests.delete(session);
    for (const { requestId } of waiting) {
      if (!this.since.has(requestId)) this.since.set(requestId, Date.now());
    }
  }

  /** Returns all pending requests, newest first. */
  pending() {
    const all = [...this.requests.values()].flat();
    // Ids of requests sort by time.
    return all.sort((a, b) => (a.requestId < b.requestId ? 1 : -1));
  }

  /**
   * Removes a request for good, when the server says that it has an answer. The feed may say so later.
   *
   * @param {PendingRequest} request
   */
  drop(request) {
    this.answered.add(key(request));
    this.wait(request.sessionId, this.requests.get(request.sessionId) ?? []);
    this.changed("requests");
  }

  /** @param {"sessions" | "requests" | "connection"} what */
  changed(what) {
    this.dispatchEvent(new Event(what));
  }
}

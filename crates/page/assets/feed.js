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

export class Feed extends EventTarget {
  constructor() {
    super();
    /** @type {Map<string, SessionInfo>} */
    this.sessions = new Map();
    /** @type {Map<string, PendingRequest[]>} */
    this.requests = new Map();
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
        const [{ sessions }, { requests }] = await Promise.all([get("sessions?limit=500"), get("requests")]);
        if (load === this.loads) this.replace(sessions, requests);
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
   */
  replace(sessions, requests) {
    this.sessions = new Map(sessions.map((session) => [session.id, session]));
    this.requests = new Map();
    for (const request of requests) {
      this.requests.set(request.sessionId, [...(this.requests.get(request.sessionId) ?? []), request]);
      this.note(request.requestId);
    }
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
      this.changed("sessions");
      if (had) this.changed("requests");
      return;
    }
    if (type !== "session") return;
    const { requests, ...info } = data;
    const known = this.sessions.get(info.id);
    this.sessions.set(info.id, { ...known, ...info, model: info.model ?? known?.model ?? null });
    this.changed("sessions");
    if (!requests) return;
    if (requests.length) {
      this.requests.set(info.id, requests.map((/** @type {PendingRequest} */ request) => ({ ...request, sessionId: info.id })));
      requests.forEach((/** @type {PendingRequest} */ request) => this.note(request.requestId));
    } else this.requests.delete(info.id);
    this.changed("requests");
  }

  /** @param {string} id */
  note(id) {
    if (!this.since.has(id)) this.since.set(id, Date.now());
  }

  /** Returns all pending requests, newest first. */
  pending() {
    const all = [...this.requests.values()].flat();
    // Ids of requests sort by time.
    return all.sort((a, b) => (a.requestId < b.requestId ? 1 : -1));
  }

  /**
   * Removes a request that was answered here, before the feed says so.
   *
   * @param {PendingRequest} answered
   */
  drop(answered) {
    const left = (this.requests.get(answered.sessionId) ?? []).filter(({ requestId }) => requestId !== answered.requestId);
    if (left.length) this.requests.set(answered.sessionId, left);
    else this.requests.delete(answered.sessionId);
    this.changed("requests");
  }

  /** @param {"sessions" | "requests" | "connection"} what */
  changed(what) {
    this.dispatchEvent(new Event(what));
  }
}

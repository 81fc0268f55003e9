// @ts-check
/** The server: requests, and streams that reconnect. All URLs are relative to the page, which may have a path prefix. */

/** An error that the server reports, or a failed connection (status 0). */
export class ApiError extends Error {
  /**
   * @param {number} status
   * @param {string} code
   * @param {string} message
   */
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** Tells the page that the login has ended. */
export const loggedOut = new EventTarget();

/** @param {string} path */
export function url(path) {
  return new URL(`api/${path}`, document.baseURI).href;
}

/**
 * Sends a request. Returns the parsed response; none for an empty one.
 *
 * @param {string} method
 * @param {string} path
 * @param {unknown} [body]
 * @param {Record<string, string>} [headers]
 * @returns {Promise<any>}
 */
export async function call(method, path, body, headers = {}) {
  let response;
  try {
    response = await fetch(url(path), {
      method,
      headers: { "X-Baton-Page": "1", ...(body === undefined ? {} : { "Content-Type": "application/json" }), ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
      cache: "no-store",
    });
  } catch {
    throw new ApiError(0, "unreachable", "The server cannot be reached.");
  }
  if (!response.ok) throw await failure(response);
  const text = await response.text();
  return text ? JSON.parse(text) : undefined;
}

/** @param {string} path */
export const get = (path) => call("GET", path);
/** @param {string} path @param {unknown} [body] @param {Record<string, string>} [headers] */
export const post = (path, body = {}, headers) => call("POST", path, body, headers);

/** @param {Response} response */
async function failure(response) {
  const body = await response.json().catch(() => null);
  const { code = "error", message = `The server answered ${response.status}.` } = body?.error ?? {};
  if (response.status === 401 && !response.url.endsWith("/login")) loggedOut.dispatchEvent(new Event("out"));
  return new ApiError(response.status, code, message);
}

/** Longest time without a byte; the server sends a comment every 15 seconds. */
const SILENCE = 40_000;
/** Time without a byte after which a page that becomes visible again does not trust its connection. */
const HEARTBEATS = 18_000;
/** Pauses between attempts to connect, in milliseconds. */
const PAUSES = [100, 250, 500, 1000, 2000, 4000];

/**
 * Follows an event stream, and connects again whenever it breaks: after sleep, a lost network, a killed server. `start` is
 * called before each connection and returns its path; the stream stops for good when it throws.
 *
 * @param {object} options
 * @param {() => string} options.path
 * @param {(event: { id: string, type: string, data: any }) => void} options.receive
 * @param {() => void} [options.opened]
 * @param {(connected: boolean) => void} [options.state]
 * @param {(error: ApiError) => boolean} [options.refused] returns whether to try again
 * @returns {() => void} stops it
 */
export function follow({ path, receive, opened, state, refused }) {
  let stopped = false;
  let attempt = 0;
  /** When the last byte came. */
  let heard = Date.now();
  /** @type {AbortController | null} */
  let current = null;
  /** @type {(() => void) | null} */
  let wake = null;
  const hurry = () => wake?.();
  const pause = (/** @type {number} */ time) =>
    new Promise((resolve) => {
      const timer = setTimeout(resolve, time);
      wake = () => {
        clearTimeout(timer);
        resolve(undefined);
      };
    });
  // A connection of before a sleep or a change of the network may be dead without anybody having said so.
  const reconnect = () => {
    current?.abort();
    hurry();
  };
  const revisit = () => {
    if (document.visibilityState !== "visible") return;
    if (Date.now() - heard > HEARTBEATS) reconnect();
    else hurry();
  };
  addEventListener("online", reconnect);
  addEventListener("offline", reconnect);
  document.addEventListener("visibilitychange", revisit);

  const run = async () => {
    while (!stopped) {
      const abort = new AbortController();
      current = abort;
      try {
        await connect(path(), abort, () => {
          attempt = 0;
          state?.(true);
          opened?.();
        }, receive, () => { heard = Date.now(); });
      } catch (error) {
        if (stopped) break;
        if (error instanceof ApiError && error.status > 0 && refused && !refused(error)) break;
      }
      state?.(false);
      if (stopped) break;
      await pause(PAUSES[Math.min(attempt, PAUSES.length - 1)]);
      attempt += 1;
    }
  };
  run();
  return () => {
    stopped = true;
    removeEventListener("online", reconnect);
    removeEventListener("offline", reconnect);
    document.removeEventListener("visibilitychange", revisit);
    current?.abort();
    hurry();
  };
}

/**
 * Reads one connection to its end.
 *
 * @param {string} path
 * @param {AbortController} abort
 * @param {() => void} opened
 * @param {(event: { id: string, type: string, data: any }) => void} receive
 * @param {() => void} alive called for every part that comes
 */
async function connect(path, abort, opened, receive, alive) {
  let silence = setTimeout(() => abort.abort(), SILENCE);
  try {
    const response = await fetch(url(path), {
      headers: { Accept: "text/event-stream" },
      cache: "no-store",
      signal: abort.signal,
    });
    if (!response.ok || !response.body) throw await failure(response);
    opened();
    const reader = response.body.getReader();
    const decoder = new TextDecoder();
    let buffer = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      alive();
      clearTimeout(silence);
      silence = setTimeout(() => abort.abort(), SILENCE);
      buffer += decoder.decode(value, { stream: true });
      let end;
      let start = 0;
      while ((end = buffer.indexOf("\n\n", start)) >= 0) {
        const event = parse(buffer.slice(start, end));
        start = end + 2;
        if (event) receive(event);
      }
      buffer = buffer.slice(start);
    }
  } finally {
    clearTimeout(silence);
  }
}

/**
 * Parses one event of a stream; none for a comment.
 *
 * @param {string} text
 */
export function parse(text) {
  const event = { id: "", type: "message", data: /** @type {any} */ (null) };
  let has = false;
  for (const line of text.split("\n")) {
    if (line.startsWith("data: ")) {
      event.data = JSON.parse(line.slice(6));
      has = true;
    } else if (line.startsWith("id: ")) event.id = line.slice(4);
    else if (line.startsWith("event: ")) event.type = line.slice(7);
  }
  return has ? event : null;
}

/**
 * Renders Markdown on the server. Requests of the same moment are sent together.
 *
 * @param {string} text
 * @returns {Promise<string>}
 */
export function render(text) {
  return new Promise((resolve, reject) => {
    waiting.push({ text, resolve, reject });
    if (waiting.length === 1) setTimeout(renderWaiting, 0);
  });
}

/** @type {{ text: string, resolve: (html: string) => void, reject: (error: unknown) => void }[]} */
let waiting = [];

async function renderWaiting() {
  const all = waiting;
  waiting = [];
  try {
    const { html } = await post("render", { markdown: all.map(({ text }) => text) });
    all.forEach(({ resolve }, at) => resolve(html[at]));
  } catch (error) {
    all.forEach(({ reject }) => reject(error));
  }
}

// Measures the page in Chromium, from loopback. `measure/page.py` starts it; prints one JSON object.
//
// * size: all files of the application as the browser received them, with their response heads
// * first paint: navigation with an empty cache, logged in, to first-contentful-paint
// * long session: navigation to a session of 100,000 events, to its last event shown and the composer enabled
// * request: from the time stamp of the durable event, to the article in the inbox of an open page
// * frames: the longest frame while 10,000 pieces are streamed at full speed

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DESKTOP, open, Server, startBrowser, startModel } from "../../tests/page/harness.mjs";

const EVENTS = Number(process.env.EVENTS ?? 100_000);
const ROUNDS = Number(process.env.ROUNDS ?? 15);
const REQUESTS = Number(process.env.REQUESTS ?? 100);
const PIECES = Number(process.env.PIECES ?? 10_000);

const sorted = (values) => [...values].sort((a, b) => a - b);
const median = (values) => sorted(values)[Math.floor(values.length / 2)];
const p99 = (values) => sorted(values)[Math.min(values.length - 1, Math.ceil(values.length * 0.99) - 1)];

const [browser, model] = await Promise.all([startBrowser(), startModel()]);
const server = await new Server(model.url).start();
const result = {};
try {
  result.firstPaint = median(await repeat(ROUNDS, firstPaint));
  await importLong();
  result.short = median(await repeat(ROUNDS, () => opening("short")));
  result.long = median(await repeat(ROUNDS, () => opening("long")));
  const waits = await visibility();
  result.request = { median: median(waits), p99: p99(waits) };
  result.longestFrame = await longestFrame();
} finally {
  await browser.close();
  await server.close();
  model.close();
}
console.log(JSON.stringify(result));

async function repeat(times, measure) {
  const values = [];
  for (let round = 0; round < times; round += 1) values.push(await measure());
  return values;
}

/** Time to the first paint with an empty cache. */
async function firstPaint() {
  const page = await open(browser, server, { size: DESKTOP });
  const state = await page.context().storageState();
  await page.context().close();
  const context = await browser.newContext({ viewport: DESKTOP, storageState: state });
  const fresh = await context.newPage();
  await fresh.goto(server.url);
  await fresh.getByRole("region", { name: "Inbox" }).waitFor();
  const time = await fresh.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0].startTime);
  result.size = await fresh.evaluate(() => {
    const all = [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")];
    const files = all.filter(({ name }) => !new URL(name).pathname.startsWith("/api/"));
    return files.reduce((sum, { transferSize }) => sum + transferSize, 0);
  });
  await context.close();
  return time;
}

/** Imports a session of many events, and a short one. */
async function importLong() {
  const folder = mkdtempSync(join(tmpdir(), "baton-bench-page-"));
  for (const [name, count] of [["short", 100], ["long", EVENTS]]) {
    const file = join(folder, `${name}.jsonl`);
    const lines = [];
    const event = (type, data, at) => JSON.stringify({ type, data, id: crypto.randomUUID(), timestamp: new Date(1_700_000_000_000 + at).toISOString(), parentId: null });
    lines.push(event("session.start", { sessionId: name, version: 1, producer: "bench", copilotVersion: "1", startTime: new Date(1_700_000_000_000).toISOString(), context: { cwd: server.work } }, 0));
    for (let at = 1; at < count; at += 1) {
      lines.push(at % 2 ? event("user.message", { content: `prompt ${at}` }, at) : event("assistant.message", { messageId: `m${at}`, content: `**answer** ${at} with some text`, toolRequests: [] }, at));
    }
    writeFileSync(file, `${lines.join("\n")}\n`);
    await server.baton("sessions", "import", file);
  }
  rmSync(folder, { recursive: true });
}

/** Time from the navigation to a session, to its end shown and the composer usable. */
async function opening(session) {
  const page = await open(browser, server, { size: DESKTOP });
  await page.goto("about:blank");
  const begun = performance.now();
  await page.goto(`${server.url}#/s/${session}`);
  await page.waitForFunction(() => document.querySelectorAll(".item").length > 20 && document.querySelector(".composer textarea"));
  const time = performance.now() - begun;
  await page.context().close();
  return time;
}

/** Times from the event of a request to its article on an open page. The clocks are the same. */
async function visibility() {
  const page = await open(browser, server, { size: DESKTOP });
  await page.evaluate(() => {
    window.seen = new Map();
    new MutationObserver((changes) => {
      for (const { addedNodes } of changes) {
        for (const node of addedNodes) {
          const id = node.dataset?.request;
          if (id && !window.seen.has(id)) window.seen.set(id, performance.timeOrigin + performance.now());
        }
      }
    }).observe(document.querySelector(".requests"), { childList: true });
  });
  const times = [];
  for (let at = 0; at < REQUESTS; at += 1) {
    await server.session(`wait${at}`, `[[tool:bash {"command":"touch ${at}"}]]`);
    let request;
    while (!request) [request] = (await server.api("GET", `sessions/wait${at}/requests`)).body.requests;
    await page.waitForFunction((id) => window.seen.has(id), request.requestId);
    const shown = await page.evaluate((id) => window.seen.get(id), request.requestId);
    const { events } = (await server.api("GET", `sessions/wait${at}/events?limit=1000`)).body;
    const { event } = events.find(({ event: { type } }) => type === "permission.requested");
    times.push(shown - new Date(event.timestamp).getTime());
    await server.api("POST", `sessions/wait${at}/cancel`);
  }
  await page.context().close();
  return times;
}

/** The longest time between two frames while pieces are streamed at full speed, in milliseconds. */
async function longestFrame() {
  await server.session("pieces");
  const page = await open(browser, server, { size: DESKTOP });
  await page.goto(`${server.url}#/s/pieces`);
  await page.getByRole("log").waitFor();
  await page.evaluate(() => {
    window.longest = 0;
    let last = performance.now();
    const frame = (now) => {
      window.longest = Math.max(window.longest, now - last);
      last = now;
      requestAnimationFrame(frame);
    };
    requestAnimationFrame((now) => { last = now; requestAnimationFrame(frame); });
  });
  await server.api("POST", "sessions/pieces/prompts", { text: `[[slow:${PIECES}:0]]` });
  await server.api("GET", "sessions/pieces");
  await page.getByText(`word${PIECES}`).first().waitFor({ timeout: 120_000, state: "attached" });
  const longest = await page.evaluate(() => window.longest);
  await page.context().close();
  return longest;
}


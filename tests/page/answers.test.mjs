// Answers and the order of things: what was answered does not come back, and what was not delivered says so.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { open, PHONE, Server, startBrowser, startModel } from "./harness.mjs";

let browser, model, server;

before(async () => {
  [browser, model] = await Promise.all([startBrowser(), startModel()]);
  server = await new Server(model.url).start();
});

after(async () => {
  await browser?.close();
  await server?.close();
  model?.close();
});

const article = (page, text) => page.getByRole("region", { name: "Inbox" }).getByRole("article").filter({ hasText: text });
const allow = (page, text) => article(page, text).getByRole("button", { name: "Allow once" });
const ask = (id) => server.session(id, `[[tool:bash {"command":"echo ${id}"}]]`);

/** Opens a page that shows the request of a new session. */
async function asked(id) {
  await ask(id);
  const page = await open(browser, server, { size: PHONE });
  await article(page, `echo ${id}`).waitFor();
  return page;
}

async function completed(id) {
  const { events } = (await server.api("GET", `sessions/${id}/events?limit=1000`)).body;
  return events.filter(({ event }) => event.type === "permission.completed").length;
}

test("a list that was read before the answer and arrives after it does not bring the request back", async () => {
  const page = await asked("ghost");
  let release, read;
  const released = new Promise((resolve) => { release = resolve; });
  const wasRead = new Promise((resolve) => { read = resolve; });
  await page.route("**/api/requests", async (route) => {
    const response = await route.fetch();
    read(await response.json());
    await released;
    await route.fulfill({ response });
  });
  await server.kill();
  await server.start();
  assert.equal((await wasRead).requests.length, 1, "the list has the request");
  await allow(page, "echo ghost").tap();
  await article(page, "echo ghost").waitFor({ state: "detached" });
  release();
  // Shown when the list has been applied, because changes wait for it.
  await ask("later");
  await article(page, "echo later").waitFor();
  assert.equal(await article(page, "echo ghost").count(), 0);
  assert.equal(await completed("ghost"), 1);
  await allow(page, "echo later").tap();
  await article(page, "echo later").waitFor({ state: "detached" });
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("a request of before a restart disappears when another client answers it", async () => {
  const page = await asked("elsewhere");
  await server.kill();
  await Promise.all([server.start(), page.waitForResponse((response) => response.url().endsWith("/api/requests"))]);
  const [{ requestId }] = (await server.api("GET", "sessions/elsewhere/requests")).body.requests;
  await server.api("POST", `sessions/elsewhere/requests/${requestId}`, { kind: "permission", decision: "approve" });
  await article(page, "echo elsewhere").waitFor({ state: "detached" });
  await page.context().close();
});

const FAILURES = {
  "the connection breaks": ["Not delivered: The server cannot be reached.", (route) => route.abort()],
  "the server fails": ["Not delivered: the disk is full", (route) => failed(route, 503, "unavailable", "the disk is full")],
  "the session moves": ["Not accepted: taken over", (route) => failed(route, 409, "taken_over", "taken over")],
};
const failed = (route, status, code, message) => route.fulfill({ status, json: { error: { code, message } } });

for (const [name, [said, fail]] of Object.entries(FAILURES)) {
  test(`an answer that is not delivered says so and can be given again: ${name}`, async () => {
    const id = `undelivered-${name.replaceAll(" ", "-")}`;
    const page = await asked(id);
    let sent = 0;
    await page.route(`**/${id}/requests/*`, (route) => (sent++ ? route.continue() : fail(route)));
    await allow(page, `echo ${id}`).tap();
    await article(page, `echo ${id}`).getByRole("alert").filter({ hasText: said }).waitFor();
    assert.equal(await completed(id), 0);
    await allow(page, `echo ${id}`).tap();
    await article(page, `echo ${id}`).waitFor({ state: "detached" });
    assert.equal(await completed(id), 1);
    await page.context().close();
  });
}

test("an answer that was recorded, and whose response was lost, ends as answered", async () => {
  const page = await asked("recorded");
  // The feed would say that it was answered; this one stays away.
  await page.route("**/api/events", (route) => route.abort());
  await server.kill();
  await server.start();
  let lost = 0;
  await page.route("**/recorded/requests/*", async (route) => {
    if (lost++) return route.continue();
    await route.fetch();
    return route.abort();
  });
  await allow(page, "echo recorded").tap();
  await article(page, "echo recorded").getByRole("alert").filter({ hasText: "Not delivered: " }).waitFor();
  await allow(page, "echo recorded").tap();
  await page.getByText("Answered: the request was already approved by").waitFor();
  await article(page, "echo recorded").waitFor({ state: "detached" });
  assert.equal(await completed("recorded"), 1);
  await page.context().close();
});

test("a change that is older than the list is skipped, and what was answered is never listed", async () => {
  const page = await open(browser, server);
  // The files of the page have the version in their path.
  const file = await page.evaluate(() => new URL("feed.js", document.querySelector("script[type=module]").src).href);
  const shown = await page.evaluate(async (file) => {
    const { Feed } = await import(file);
    const feed = new Feed();
    const request = (id) => ({ sessionId: "s", requestId: id, kind: "permission" });
    const change = (head, ...ids) => ({ type: "session", data: { id: "s", head, requests: ids.map(request) } });
    const steps = [
      () => { feed.held = [change(4, "a"), change(5)]; feed.replace([], [request("b")], { s: 6 }); },
      () => feed.apply(change(5, "a", "b")),
      () => feed.apply(change(6, "b", "form")),
      () => feed.drop(request("b")),
      () => feed.apply(change(7, "b", "c")),
      () => feed.replace([], [request("b"), request("c")], { s: 7 }),
      () => feed.apply({ type: "deleted", data: { id: "s" } }),
      () => feed.apply(change(1, "d")),
    ];
    return steps.map((step) => {
      step();
      return feed.pending().map(({ requestId }) => requestId).join(" ");
    });
  }, file);
  assert.deepEqual(shown, ["b", "b", "form b", "form", "c", "c", "", "d"]);
  await page.context().close();
});

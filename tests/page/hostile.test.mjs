// Everybody who may be hostile: the model, other web pages, other people, and the network.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { open, PHONE, Server, shoot, startBrowser, startModel } from "./harness.mjs";

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

const inbox = (page) => page.getByRole("region", { name: "Inbox" });
const log = (page) => page.getByRole("log");

const ATTACKS = [
  "<script>window.attacked=1</script>",
  "<img src=x onerror=\"window.attacked=1\">",
  "<svg onload=\"window.attacked=1\"><script>window.attacked=1</script></svg>",
  "[click](javascript:window.attacked=1)",
  "[click](JaVaScRiPt:window.attacked=1)",
  "[click](data:text/html,<script>window.attacked=1</script>)",
  "![x](javascript:window.attacked=1)",
  "<iframe srcdoc=\"<script>parent.attacked=1</script>\"></iframe>",
  "<a href=\"javascript:window.attacked=1\">click</a>",
  "<form action=\"/api/logout\"><button>click</button></form>",
  "<style>*{display:none}</style>",
  "<base href=\"https://evil.example/\">",
  "```\n</code></pre><script>window.attacked=1</script>\n```",
  "| <script>window.attacked=1</script> |\n|---|\n| <img src=x onerror=window.attacked=1> |",
  "# <b onmouseover=window.attacked=1>x</b> **[broken",
  "\u202eevil\u200b \u001b[31mred",
];

test("a hostile model runs nothing in the page", async () => {
  const texts = ATTACKS.map((attack) => `[[text:${attack}]]`);
  await server.session("hostile", texts[0]);
  for (const text of texts.slice(1)) await server.api("POST", "sessions/hostile/prompts", { text });
  await server.api("POST", "sessions/hostile/prompts", { text: `[[think:<script>window.attacked=1</script>]][[tool:bash {"command":"echo '<img src=x onerror=window.attacked=1>' '\u202ereversed' # <script>"}]]` });
  const page = await open(browser, server);
  await page.evaluate(() => document.addEventListener("securitypolicyviolation", (event) => { (window.violations ??= []).push(event.violatedDirective); }));
  await page.goto(`${server.url}#/s/hostile`);
  const request = inbox(page).getByRole("article").filter({ hasText: "onerror" });
  await request.waitFor();
  await log(page).getByText("\\u{202e}evil").first().waitFor();
  assert.match(await request.getByRole("heading").innerText(), /\\u\{202e\}reversed/);
  for (const link of await log(page).getByText("click").all()) await link.click({ force: true, noWaitAfter: true }).catch(() => {});
  assert.equal(await log(page).locator("script, iframe, svg:not(.icon), style, form, base, object, img").count(), 0);
  const links = await log(page).locator("a").evaluateAll((all) => all.map((link) => link.getAttribute("href")));
  assert.deepEqual(links.filter((link) => !/^(https?:|mailto:|#\/)/.test(link)), []);
  assert.equal(await page.evaluate(() => window.attacked), undefined);
  assert.deepEqual(await page.evaluate(() => window.violations ?? []), [], "nothing even tried");
  await shoot(page, "hostile");
  await request.getByRole("button", { name: "Deny", exact: true }).click();
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("an approval shows the ends of long lines, and every character in its order", async () => {
  const hidden = `harmless${" ".repeat(400)}hidden`;
  await server.session("wide", `[[tool:create {"path":"${server.work}/wide.txt","file_text":"${hidden}"}]]`);
  await server.session("ordered", `[[tool:bash {"command":"cat \u05d0 > \u05d1"}]]`);
  const page = await open(browser, server);
  const diff = inbox(page).locator('[data-session="wide"] .diff');
  await diff.waitFor();
  assert.ok(await diff.evaluate((shown) => shown.scrollWidth <= shown.clientWidth), "nothing is beyond the edge");
  const heading = inbox(page).locator('[data-session="ordered"] h3');
  const places = await heading.evaluate(({ firstChild: text }) => ["\u05d0", ">", "\u05d1"].map((character) => {
    const range = document.createRange();
    range.setStart(text, text.data.indexOf(character));
    range.setEnd(text, range.startOffset + 1);
    return range.getBoundingClientRect().left;
  }));
  assert.deepEqual(places, places.toSorted((one, other) => one - other));
  for (const session of ["wide", "ordered"]) {
    await inbox(page).locator(`[data-session="${session}"]`).getByRole("button", { name: "Deny", exact: true }).click();
  }
  await page.context().close();
});

test("titles, directories and answers of strangers stay text", async () => {
  await server.session("named", "hi");
  await server.api("PATCH", "sessions/named", { name: "<img src=x onerror=window.attacked=1>\u202e" });
  const page = await open(browser, server);
  await page.getByRole("link", { name: /<img src=x/ }).first().click();
  await page.getByRole("heading", { level: 2, name: /<img src=x.*\\u\{202e\}/ }).waitFor();
  assert.equal(await page.evaluate(() => window.attacked), undefined);
  await page.context().close();
});

test("the policy forbids inline scripts, framing and other origins, and no secret is in a URL or a Referer", async () => {
  const start = await fetch(server.url);
  const policy = start.headers.get("content-security-policy");
  for (const part of ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'", "require-trusted-types-for 'script'"]) {
    assert.ok(policy.includes(part), policy);
  }
  assert.ok(!policy.includes("unsafe"), policy);
  assert.equal(start.headers.get("x-frame-options"), "DENY");
  assert.equal(start.headers.get("referrer-policy"), "no-referrer");
  const link = await server.link();
  const used = await fetch(link, { redirect: "manual" });
  assert.equal(used.status, 303);
  assert.equal(used.headers.get("location"), "./");
  assert.match(used.headers.get("set-cookie"), /HttpOnly; SameSite=Strict/);
  assert.equal(used.headers.get("referrer-policy"), "no-referrer");
  const again = await fetch(link, { redirect: "manual" });
  assert.equal(again.headers.get("set-cookie"), null, "a link works once");
  const page = await open(browser, server);
  const [cookie] = await page.context().cookies();
  assert.deepEqual({ httpOnly: cookie.httpOnly, sameSite: cookie.sameSite }, { httpOnly: true, sameSite: "Strict" });
  assert.equal(await page.evaluate(() => document.cookie), "");
  assert.ok(!(await page.evaluate(() => JSON.stringify(Object.entries(localStorage)) + location.href)).includes(cookie.value));
  await page.context().close();
});

test("other pages can neither use the login nor frame the page", async () => {
  const page = await open(browser, server);
  const cookies = await page.context().cookies();
  const evil = createServer((_, response) => {
    response.setHeader("content-type", "text/html");
    response.end(`<iframe id="frame" src="${server.url}"></iframe><form id="form" method="post" enctype="text/plain" action="${server.url}api/sessions"><input name='{"id":"csrf","x":"' value='"}'></form>`);
  }).listen(0, "127.0.0.1");
  await once(evil, "listening");
  const other = await page.context().newPage();
  await other.goto(`http://localhost:${evil.address().port}/`);
  const tried = await other.evaluate(async (base) => {
    const attempts = [
      fetch(`${base}api/sessions`, { method: "POST", credentials: "include", headers: { "Content-Type": "text/plain" }, body: '{"id":"csrf"}' }),
      fetch(`${base}api/sessions`, { method: "POST", credentials: "include", headers: { "Content-Type": "application/json", "X-Baton-Page": "1" }, body: '{"id":"csrf"}' }),
      fetch(`${base}api/sessions`, { credentials: "include" }),
      fetch(`${base}api/sessions`, { method: "POST", mode: "no-cors", credentials: "include", body: '{"id":"csrf"}' }),
    ];
    const results = await Promise.allSettled(attempts);
    return results.map(({ status, value }) => (status === "fulfilled" ? value.status : "refused"));
  }, server.url);
  try {
  assert.deepEqual(tried, ["refused", "refused", "refused", "refused"]);
  await other.evaluate(() => document.getElementById("form").submit());
  await other.waitForLoadState();
  assert.equal((await server.api("GET", "sessions/csrf")).status, 404);
  const framed = other.frames().length > 1 ? await other.frames()[1].evaluate(() => document.body.innerText).catch(() => "") : "";
  assert.ok(!framed.includes("Inbox"));
  } finally {
    evil.close();
    evil.closeAllConnections();
  }
  // A cookie alone changes nothing: the header of the page is missing.
  const pair = cookies.map(({ name, value }) => `${name}=${value}`).join("; ");
  const forged = await fetch(`${server.url}api/sessions`, { method: "POST", headers: { Cookie: pair, "Content-Type": "application/json" }, body: "{}" });
  assert.equal(forged.status, 403);
  await page.context().close();
});

test("a viewer can do nothing but watch, in the page and around it", async () => {
  const { token } = JSON.parse((await server.baton("people", "add", "vera", "--role", "viewer", "--json")).out);
  await server.session("watched", "[[tool:bash {\"command\":\"touch forbidden\"}]]");
  const page = await open(browser, server, { person: "vera", size: PHONE });
  await inbox(page).getByRole("heading", { name: "bash: touch forbidden" }).waitFor();
  assert.equal(await page.getByRole("button", { name: "Allow once" }).count(), 0);
  assert.equal(await page.getByRole("button", { name: "New session" }).count(), 0);
  await page.goto(`${server.url}#/s/watched`);
  await page.getByText("Your role (viewer) can watch").waitFor();
  assert.equal(await page.getByRole("textbox", { name: "Prompt" }).count(), 0);
  const document = await (await fetch(`${server.url}api/openapi.json`, { headers: { Authorization: `Bearer ${server.token}` } })).json();
  const { requestId } = (await server.api("GET", "sessions/watched/requests")).body.requests[0];
  for (const [path, item] of Object.entries(document.paths)) {
    for (const method of Object.keys(item).filter((name) => ["post", "patch", "delete", "put"].includes(name))) {
      // Notifications are those of the viewer's own browser.
      if (path === "/api/render" || path.startsWith("/api/notifications/")) continue;
      const concrete = path.slice(5).replace("{id}", "watched").replace("{request}", requestId).replace(/\{\w+\}/g, "x");
      const { status } = await server.api(method.toUpperCase(), concrete, { kind: "permission", decision: "approve", text: "x" }, { token });
      assert.equal(status, 403, `${method} ${path}`);
    }
  }
  assert.equal((await server.api("GET", "sessions", undefined, { token })).status, 200);
  assert.equal((await server.api("GET", "people", undefined, { token })).status, 403);
  await server.api("POST", "sessions/watched/cancel");
  await page.context().close();
});

test("an approver answers and does not prompt; events say who did what", async () => {
  const { token } = JSON.parse((await server.baton("people", "add", "alex", "--role", "approver", "--json")).out);
  await server.session("approved", "[[tool:bash {\"command\":\"true\"}]][[text:ok]]");
  assert.equal((await server.api("POST", "sessions/approved/prompts", { text: "no" }, { token })).status, 403);
  const page = await open(browser, server, { person: "alex", size: PHONE });
  await inbox(page).getByRole("article").filter({ hasText: "bash: true" }).getByRole("button", { name: "Allow once" }).click();
  await inbox(page).getByRole("heading", { name: "bash: true" }).waitFor({ state: "detached" });
  const { events } = (await server.api("GET", "sessions/approved/events?limit=1000")).body;
  const completed = events.map(({ event }) => event).find(({ type }) => type === "permission.completed");
  assert.equal(completed.data.batonBy, "alex");
  await page.context().close();
});

test("two people race: the first answer counts, and the second learns who was first", async () => {
  await server.baton("people", "add", "ben", "--role", "approver");
  await server.baton("people", "add", "cleo", "--role", "approver");
  await server.session("race", "[[tool:bash {\"command\":\"echo raced\"}]]");
  const [ben, cleo] = await Promise.all(["ben", "cleo"].map((person) => open(browser, server, { person, size: PHONE })));
  const article = (page) => inbox(page).getByRole("article").filter({ hasText: "echo raced" });
  // Cleo presses first, and her answer is on its way until Ben's counts.
  let release;
  const released = new Promise((resolve) => { release = resolve; });
  const held = new Promise((resolve) => cleo.route("**/requests/*", async (route) => {
    resolve();
    await released;
    await route.continue();
  }));
  await article(cleo).getByRole("button", { name: "Allow once" }).click();
  await held;
  await article(ben).getByRole("button", { name: "Allow once" }).click();
  await article(ben).waitFor({ state: "detached" });
  release();
  await cleo.getByText("Too late: the request was already approved by ben").waitFor();
  await article(cleo).waitFor({ state: "detached" });
  const { events } = (await server.api("GET", "sessions/race/events?limit=1000")).body;
  assert.equal(events.filter(({ event }) => event.type === "permission.completed").length, 1);
  await Promise.all([ben, cleo].map((page) => page.context().close()));
});

test("removing a person ends open pages and streams at once", async () => {
  const { token } = JSON.parse((await server.baton("people", "add", "rita", "--role", "driver", "--json")).out);
  await server.session("revoked", "hello");
  const stream = await fetch(`${server.url}api/sessions/revoked/events`, { headers: { Authorization: `Bearer ${token}`, Accept: "text/event-stream" } });
  const page = await open(browser, server, { person: "rita" });
  await page.goto(`${server.url}#/s/revoked`);
  await page.getByRole("textbox", { name: "Prompt" }).fill("a draft");
  await server.baton("people", "remove", "rita");
  for await (const _ of stream.body);
  await page.getByText("Your login has ended").waitFor();
  assert.equal((await server.api("GET", "sessions", undefined, { token })).status, 401);
  await page.context().close();
});

test("a token that was replaced ends its open streams, and no later request of it succeeds", async () => {
  const { token } = JSON.parse((await server.baton("people", "add", "rob", "--role", "driver", "--json")).out);
  await server.session("renewed", "hello");
  const headers = { Authorization: `Bearer ${token}`, Accept: "text/event-stream" };
  const streams = await Promise.all(["sessions/renewed/events", "events"].map((path) => fetch(`${server.url}api/${path}`, { headers })));
  assert.deepEqual(streams.map(({ status }) => status), [200, 200]);
  await server.baton("people", "token", "rob");
  for (const stream of streams) for await (const _ of stream.body);
  assert.equal((await server.api("GET", "sessions", undefined, { token })).status, 401);
  assert.equal((await server.api("POST", "sessions/renewed/prompts", { text: "x" }, { token })).status, 401);
});

test("an approver can change nothing but answers, on every route", async () => {
  const { token } = JSON.parse((await server.baton("people", "add", "amy", "--role", "approver", "--json")).out);
  await server.session("tried", '[[tool:bash {"command":"touch tried"}]]');
  const document = (await server.api("GET", "openapi.json")).body;
  const mayAnswer = /\/requests\/|\/grants|\/locations|^\/api\/render$|^\/api\/notifications\//;
  let tried = 0;
  for (const [path, item] of Object.entries(document.paths)) {
    for (const method of Object.keys(item).filter((name) => name !== "get")) {
      if (mayAnswer.test(path)) continue;
      const concrete = path.slice(5).replace("{id}", "tried").replace(/\{\w+\}/g, "x");
      const { status } = await server.api(method.toUpperCase(), concrete, { text: "x" }, { token });
      assert.equal(status, 403, `${method} ${path}`);
      tried += 1;
    }
  }
  assert.ok(tried > 10, `${tried} routes`);
  await server.api("POST", "sessions/tried/cancel");
});

test("a hostile form, page and sample stay text", async () => {
  // The article is made by the page from what a stranger sent: no schema may run, navigate or break it.
  const page = await open(browser, server);
  const shown = await page.evaluate(async () => {
    const base = document.querySelector("script[src]").src.replace(/main\.js$/, "");
    const { elicitation, sampling } = await import(`${base}form.js`);
    const place = document.createElement("div");
    document.body.append(place);
    const attack = "<img src=x onerror=window.attacked=1>";
    const schema = { properties: { __proto__x: { title: attack, enum: [attack], description: attack }, constructor: { type: "array", items: { enum: [attack] } }, n: { type: "integer", minimum: attack, default: { a: 1 } }, o: null, p: { oneOf: "x" } }, required: "x" };
    const answers = [];
    elicitation(place, { detail: { requestedSchema: schema } }, (answer) => answers.push(answer));
    elicitation(place, { detail: { url: "javascript:window.attacked=1" } }, () => {});
    sampling(place, { detail: { request: { systemPrompt: attack, messages: [{ role: attack, content: null }] } } }, () => {});
    place.querySelector("form").requestSubmit();
    return { links: place.querySelectorAll("a").length, images: place.querySelectorAll("img").length, answers, attacked: window.attacked };
  });
  assert.deepEqual({ links: shown.links, images: shown.images, attacked: shown.attacked }, { links: 0, images: 0, attacked: undefined });
  assert.deepEqual(shown.answers, [{ action: "accept", content: { constructor: [] } }]);
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

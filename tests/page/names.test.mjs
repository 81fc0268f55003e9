// The names by which screen readers, and tests of others, find the parts of the page. They are a promise.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { DESKTOP, open, PHONE, Server, startBrowser, startModel } from "./harness.mjs";

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

/** Asserts that exactly one element has the role and the name, and that it is visible. */
async function one(page, role, name) {
  const found = page.getByRole(role, { name, exact: true });
  await found.first().waitFor();
  assert.equal(await found.count(), 1, `${role} ${name}`);
  return found;
}

test("all names on a desktop", async () => {
  await server.session("named", '[[tool:bash {"command":"touch named"}]]');
  const page = await open(browser, server, { size: DESKTOP });
  for (const region of ["Inbox", "Sessions", "Conversation"]) await one(page, "region", region);
  await one(page, "button", "New session");
  await one(page, "textbox", "Prompt");
  await one(page, "button", "Send");
  const request = page.getByRole("region", { name: "Inbox" }).getByRole("article");
  await request.waitFor();
  assert.equal(await request.count(), 1);
  assert.equal(await request.getByRole("heading").innerText(), "bash: touch named");
  assert.equal(await page.getByRole("article", { name: "bash: touch named" }).count(), 1);
  await one(page, "button", "Allow once");
  await one(page, "button", "Deny");
  await page.getByRole("region", { name: "Sessions" }).getByRole("link").first().click();
  await page.getByRole("log").waitFor();
  assert.equal(await page.getByRole("region", { name: "Conversation" }).getByRole("log").count(), 1);
  await one(page, "button", "Cancel turn");
  await one(page, "textbox", "Prompt");
  await one(page, "button", "Send");
  await page.getByRole("button", { name: "New session" }).click();
  await one(page, "textbox", "Prompt");
  await page.context().close();
});

test("all names on a phone, which lands on the Inbox", async () => {
  await server.session("phoned", '[[tool:bash {"command":"touch phoned"}]]');
  const page = await open(browser, server, { size: PHONE });
  await one(page, "region", "Inbox");
  assert.equal(await page.getByRole("region", { name: "Sessions" }).isVisible(), false);
  const request = page.getByRole("article", { name: "bash: touch phoned" });
  await request.getByRole("button", { name: "Allow once", exact: true }).waitFor();
  await request.getByRole("button", { name: "Deny", exact: true }).waitFor();
  await page.getByRole("link", { name: "Sessions" }).click();
  const sessions = await one(page, "region", "Sessions");
  await sessions.getByRole("link").first().click();
  await one(page, "region", "Conversation");
  await one(page, "log", "Conversation");
  await one(page, "button", "Cancel turn");
  await one(page, "textbox", "Prompt");
  await one(page, "button", "Send");
  await page.getByRole("link", { name: "Back to the sessions" }).click();
  await page.getByRole("button", { name: "New session" }).click();
  await one(page, "textbox", "Prompt");
  await one(page, "button", "Send");
  await page.context().close();
});

test("a request is denied on the phone by its name", async () => {
  const page = await open(browser, server, { size: PHONE });
  await server.session("denied", '[[tool:bash {"command":"touch denied"}]][[text:as you wish]]');
  const request = page.getByRole("article", { name: "bash: touch denied" });
  await request.getByRole("button", { name: "Deny", exact: true }).click();
  await request.waitFor({ state: "detached" });
  const { events } = (await server.api("GET", "sessions/denied/events?limit=1000")).body;
  const decided = events.map(({ event }) => event).find(({ type }) => type === "permission.completed");
  assert.match(decided.data.result.kind, /^denied/);
  await page.context().close();
});

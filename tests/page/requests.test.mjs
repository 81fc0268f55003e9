// Requests that a person answers in the page: forms, pages, samples, logins, questions, plans. Each at phone and desktop size.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { DESKTOP, open, PHONE, Server, shoot, startBrowser, startModel, violations } from "./harness.mjs";

const repository = join(import.meta.dirname, "../..");
const SIZES = [["phone", PHONE], ["desktop", DESKTOP]];

let browser, model, server, locked;

before(async () => {
  [browser, model] = await Promise.all([startBrowser(), startModel()]);
  locked = spawn("python3", [join(repository, "crates/baton/tests/it/oauth_server.py"), "well"], { stdio: ["ignore", "pipe", "inherit"] });
  const [port] = await once(locked.stdout, "data");
  server = new Server(model.url);
  mkdirSync(join(server.home, "state"), { recursive: true, mode: 0o700 });
  const odd = { command: "python3", args: [join(import.meta.dirname, "forms_server.py")] };
  const login = { type: "http", url: `http://127.0.0.1:${String(port).trim()}/mcp` };
  writeFileSync(join(server.home, "state/mcp-config.json"), JSON.stringify({ mcpServers: { forms: odd, locked: login } }), { mode: 0o600 });
  await server.start();
});

after(async () => {
  await browser?.close();
  await server?.close();
  locked?.kill();
  model?.close();
});

const inbox = (page) => page.getByRole("region", { name: "Inbox" });
const log = (page) => page.getByRole("region", { name: "Conversation" }).getByRole("log");
const request = (page, heading) => inbox(page).getByRole("article").filter({ has: page.getByRole("heading", { name: heading }) });

/** Starts a session that calls a tool, while a page is open. */
async function asked(id, tool, size) {
  const page = await open(browser, server, { size });
  await server.session(id, `[[tool:${tool} {}]]`, { questions: true, allowAllTools: true });
  return page;
}

/** Returns the result of the tool call of a session, once it has one. */
async function result(id) {
  for (;;) {
    const { events } = (await server.api("GET", `sessions/${id}/events?limit=1000`)).body;
    const done = events.map(({ event }) => event).find(({ type }) => type === "tool.execution_complete");
    if (done) return done.data.result?.content ?? JSON.stringify(done.data);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

for (const [name, size] of SIZES) {
  test(`a form is filled in and sent (${name})`, async () => {
    const page = await asked(`form-${name}`, "forms-form", size);
    const form = request(page, /Book a table/);
    await form.getByRole("textbox", { name: "Name" }).waitFor();
    assert.deepEqual(await violations(page), []);
    await shoot(page, `${name}-form`);
    await form.getByRole("button", { name: "Send answer" }).click();
    assert.equal(await form.count(), 1, "a required field is empty");
    await form.getByRole("textbox", { name: "Name" }).fill("Ada <b>");
    await form.getByRole("spinbutton", { name: "Guests" }).fill("4");
    await form.getByRole("combobox", { name: "Table" }).selectOption({ label: "At the window" });
    await form.getByRole("checkbox", { name: "Outside" }).check();
    await form.getByRole("checkbox", { name: "Vegan" }).check();
    await form.getByRole("button", { name: "Send answer" }).click();
    await form.waitFor({ state: "detached" });
    assert.deepEqual(JSON.parse(await result(`form-${name}`)), {
      action: "accept", content: { name: "Ada <b>", guests: 4, table: "w", outside: true, diets: ["vegan"] },
    });
    assert.deepEqual(page.problems, []);
    await page.context().close();
  });

  test(`a form is declined, a page is opened, a sample is allowed and denied (${name})`, async () => {
    const page = await asked(`decline-${name}`, "forms-form", size);
    await request(page, /Book a table/).getByRole("button", { name: "Decline" }).click();
    assert.deepEqual(JSON.parse(await result(`decline-${name}`)), { action: "decline" });
    await server.session(`url-${name}`, "[[tool:forms-page {}]]", { questions: true, allowAllTools: true });
    const opened = request(page, /Pay here/);
    await opened.getByText("https://pay.example/order?id=1").waitFor();
    const link = opened.getByRole("link", { name: "Open page" });
    assert.deepEqual(await link.evaluate((element) => [element.href, element.target, element.rel]), ["https://pay.example/order?id=1", "_blank", "noopener noreferrer"]);
    await opened.getByRole("button", { name: "Done" }).click();
    assert.deepEqual(JSON.parse(await result(`url-${name}`)), { action: "accept" });
    for (const [answer, expected] of [["Allow once", /assistant/], ["Deny", /declined|refused|denied/i]]) {
      const id = `sample-${name}-${answer.split(" ")[0]}`;
      await server.session(id, "[[tool:forms-sample {}]]", { questions: true, allowAllTools: true });
      const sample = request(page, /Use the model: forms/);
      await sample.getByText("user: say hello").waitFor();
      await sample.getByRole("button", { name: answer, exact: true }).click();
      await sample.waitFor({ state: "detached" });
      assert.match(await result(id), expected);
    }
    assert.deepEqual(page.problems, []);
    await page.context().close();
  });

  test(`a question is answered and the history says by whom (${name})`, async () => {
    await server.baton("people", "add", `quinn-${name}`, "--role", "approver");
    const page = await open(browser, server, { person: `quinn-${name}`, size });
    await server.session(`question-${name}`, '[[tool:ask_user {"question":"Which colour?","choices":["red","blue"]}]][[text:Thanks.]]', { questions: true });
    const question = request(page, "Question: Which colour?");
    await question.getByRole("textbox", { name: "Your answer" }).fill("a dark green");
    await question.getByRole("button", { name: "Answer", exact: true }).click();
    await question.waitFor({ state: "detached" });
    await page.goto(`${server.url}#/s/question-${name}`);
    await log(page).getByText("Thanks.", { exact: true }).waitFor();
    await log(page).getByText(`Answered by quinn-${name}`).waitFor({ state: "attached" });
    const audit = (await server.baton("audit")).out;
    assert.match(audit, new RegExp(`quinn-${name}.*answered|answered.*quinn-${name}`), audit);
    const { events } = (await server.api("GET", `sessions/question-${name}/events?limit=1000`)).body;
    assert.equal(events.map(({ event }) => event).find(({ type }) => type === "baton.request_closed").data.by, `quinn-${name}`);
    await page.context().close();
  });

  test(`a plan is reviewed, rejected with feedback and approved (${name})`, async () => {
    const id = `plan-${name}`;
    await server.session(id, null, { questions: true });
    await server.api("PATCH", `sessions/${id}`, { mode: "plan" });
    const call = '[[tool:exit_plan_mode {"summary":"# The plan\\n\\n1. **first** step\\n2. second <script>window.attacked=1</script>","actions":["interactive","autopilot","exit_only"],"recommendedAction":"interactive"}]]';
    await server.api("POST", `sessions/${id}/prompts`, { text: `${call}${call}[[text:It is done.]]` });
    const page = await open(browser, server, { size });
    const plan = request(page, /^Plan/);
    await plan.locator("strong", { hasText: "first" }).waitFor();
    assert.equal(await page.evaluate(() => window.attacked), undefined);
    assert.deepEqual(await violations(page), []);
    await shoot(page, `${name}-plan`);
    await plan.getByRole("textbox", { name: /Feedback/ }).fill("smaller steps");
    const first = await plan.getAttribute("data-request");
    await plan.getByRole("button", { name: "Reject plan" }).click();
    await page.locator(`[data-request="${first}"]`).waitFor({ state: "detached" });
    await plan.getByRole("button", { name: "Start, ask for permissions" }).click();
    await plan.waitFor({ state: "detached" });
    await page.goto(`${server.url}#/s/${id}`);
    await log(page).getByText("It is done.", { exact: true }).waitFor();
    await log(page).getByText("Mode: interactive").waitFor();
    const { events } = (await server.api("GET", `sessions/${id}/events?limit=1000`)).body;
    assert.match(JSON.stringify(events), /smaller steps/);
    await page.context().close();
  });
}

test("a login at an MCP server is finished from the page", async () => {
  const page = await open(browser, server, { size: PHONE });
  await server.session("login", "hello", { questions: true, allowAllTools: true });
  // Every session of this server has met the locked one, and asks for a login of its own.
  const login = inbox(page).locator('article[data-session="login"]').filter({ hasText: "Log in: locked" });
  await login.getByRole("button", { name: "Get the link" }).click();
  const link = await login.getByRole("link", { name: /authorize/ }).getAttribute("href");
  assert.deepEqual(await violations(page), []);
  // The browser of the phone follows the link; it cannot reach the server's loopback address, and the address is pasted.
  const consent = await fetch(link, { redirect: "manual" });
  const ended = consent.headers.get("location");
  assert.match(ended, /code=/);
  const id = await login.getAttribute("data-request");
  await login.getByRole("textbox", { name: /paste the address/ }).fill(ended);
  await login.getByRole("button", { name: "Finish login" }).click();
  await page.locator(`[data-request="${id}"]`).waitFor({ state: "detached" });
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

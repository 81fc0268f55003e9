// What a person does in an open session: steering, the queue, sub-agents, rewinding with files, cost. At phone and desktop size.

import assert from "node:assert/strict";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { DESKTOP, open, PHONE, Server, shoot, startBrowser, startModel, violations } from "./harness.mjs";

const SIZES = [["phone", PHONE], ["desktop", DESKTOP]];
let browser, model, server;

before(async () => {
  [browser, model] = await Promise.all([startBrowser(), startModel()]);
  server = new Server(model.url);
  mkdirSync(join(server.home, ".config/baton"), { recursive: true });
  writeFileSync(join(server.home, ".config/baton/config.toml"), '[prices."*"]\ninput = 1000.0\noutput = 2000.0\n');
  await server.start();
});

after(async () => {
  await browser?.close();
  await server?.close();
  model?.close();
});

const conversation = (page) => page.getByRole("region", { name: "Conversation" });
const log = (page) => conversation(page).getByRole("log");
const prompt = (page) => page.getByRole("textbox", { name: "Prompt" });

for (const [name, size] of SIZES) {
  test(`a running turn is steered, and its queue is edited (${name})`, async () => {
    const id = `steer-${name}`;
    await server.session(id, `[[tool:bash {"command":"touch ${id}"}]][[text:The turn is over.]]`);
    const page = await open(browser, server, { size });
    await page.goto(`${server.url}#/s/${id}`);
    await page.getByRole("button", { name: "Cancel turn" }).waitFor();
    await page.getByRole("checkbox", { name: "Steer now" }).check();
    await prompt(page).fill("rather be quick");
    await page.getByRole("button", { name: "Send" }).click();
    await page.waitForFunction(() => document.querySelector(".composer textarea")?.value === "");
    await page.getByRole("checkbox", { name: "Steer now" }).uncheck();
    await prompt(page).fill("[[text:And this was queued.]]");
    await page.getByRole("button", { name: "Send" }).click();
    const queue = page.getByRole("region", { name: /^Queue/ });
    await queue.getByText("And this was queued.").waitFor();
    assert.deepEqual(await violations(page), []);
    await shoot(page, `${name}-steering`);
    await page.getByRole("article").filter({ has: page.getByRole("heading", { name: `bash: touch ${id}` }) }).getByRole("button", { name: "Allow once" }).click();
    await log(page).getByText("And this was queued.", { exact: true }).last().waitFor();
    const steered = log(page).getByRole("article", { name: "Prompt of a user" }).filter({ hasText: "rather be quick" });
    assert.equal(await steered.count(), 1, "shown once");
    await steered.getByText("steering").waitFor();
    await page.context().close();
  });

  test(`a sub-agent is nested in the call that started it (${name})`, async () => {
    const id = `agents-${name}`;
    const page = await open(browser, server, { size });
    await server.session(id, '[[tool:task {"agent_type":"task","prompt":"The sub-agent has spoken.","description":"look","name":"looker"}]][[text:All came back.]]', { allowAllTools: true });
    await page.goto(`${server.url}#/s/${id}`);
    await log(page).getByText("All came back.", { exact: true }).waitFor();
    const agent = log(page).locator("details.agent");
    await agent.waitFor({ state: "attached" });
    assert.equal(await agent.count(), 1);
    assert.equal(await agent.getByText("The sub-agent has spoken.").count() > 0, true, "its answer is inside");
    assert.equal(await log(page).locator(".items > .assistant").filter({ hasText: "The sub-agent has spoken." }).locator("xpath=self::*[not(ancestor::details)]").count(), 0, "and nowhere else");
    const before = await log(page).innerText();
    await page.reload();
    await log(page).getByText("All came back.", { exact: true }).waitFor();
    assert.equal(await log(page).locator("details.agent").count(), 1, "after a reload as well");
    assert.ok(before.length > 0);
    await page.context().close();
  });

  test(`a rewind previews the files and restores them (${name})`, async () => {
    const file = join(server.work, `${name}.txt`);
    writeFileSync(file, "before\n");
    const page = await open(browser, server, { size });
    await page.goto(`${server.url}#/new`);
    await page.getByRole("combobox", { name: "Tools" }).selectOption({ label: "Run all tools without asking" });
    await prompt(page).fill("[[text:nothing yet]]");
    await page.getByRole("button", { name: "Send" }).click();
    await log(page).getByText("nothing yet", { exact: true }).waitFor();
    await prompt(page).fill(`[[tool:edit {"path":"${file}","old_str":"before","new_str":"after"}]][[tool:create {"path":"${file}.new","file_text":"new\\n"}]][[text:changed both]]`);
    await page.getByRole("button", { name: "Send" }).click();
    await log(page).getByText("changed both", { exact: true }).waitFor();
    assert.equal(readFileSync(file, "utf8"), "after\n");
    await page.getByRole("button", { name: "Cancel turn" }).waitFor({ state: "hidden" });
    await log(page).getByRole("button", { name: "Rewind" }).last().click();
    const dialog = page.getByRole("dialog");
    const files = dialog.getByRole("listitem").filter({ hasText: `${name}.txt` });
    await files.first().waitFor();
    assert.equal(await files.count(), 2);
    assert.deepEqual(await violations(page), []);
    await shoot(page, `${name}-rewind`);
    await dialog.getByRole("button", { name: "Rewind, restore files" }).click();
    await log(page).getByText("The conversation was rewound to here").waitFor();
    await log(page).getByText("changed both", { exact: true }).waitFor({ state: "detached" });
    assert.equal(readFileSync(file, "utf8"), "before\n");
    assert.equal(existsSync(`${file}.new`), false);
    await page.context().close();
  });

  test(`images of tools, summaries and errors are shown (${name})`, async () => {
    const png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    writeFileSync(join(server.work, `${name}.png`), Buffer.from(png, "base64"));
    const id = `shown-${name}`;
    const event = (type, data, at) => JSON.stringify({ type, data, id: crypto.randomUUID(), timestamp: new Date(1_700_000_000_000 + at).toISOString(), parentId: null });
    const file = join(server.home, `${id}.jsonl`);
    writeFileSync(file, `${[
      event("session.start", { sessionId: id, version: 1, producer: "test", copilotVersion: "1", startTime: new Date(1_700_000_000_000).toISOString(), context: { cwd: server.work } }, 0),
      event("user.message", { content: "an old prompt" }, 1),
      event("session.compaction_complete", { success: true, summaryContent: "## What happened\n\n**much** <script>window.attacked=1</script>" }, 2),
    ].join("\n")}\n`);
    await server.baton("sessions", "import", file);
    const page = await open(browser, server, { size });
    await page.goto(`${server.url}#/s/${id}`);
    await log(page).getByText("The conversation so far was summarised for the model").click();
    await log(page).locator("strong", { hasText: "much" }).waitFor();
    await server.api("PATCH", `sessions/${id}`, { permissions: "allow-all" });
    await prompt(page).fill(`[[tool:view {"path":"${join(server.work, `${name}.png`)}"}]]`);
    await page.getByRole("button", { name: "Send" }).click();
    await log(page).locator("details.tool img").waitFor();
    await page.getByRole("button", { name: "Cancel turn" }).waitFor({ state: "hidden" });
    await prompt(page).fill("[[error:400]]");
    await page.getByRole("button", { name: "Send" }).click();
    await log(page).getByText("Error", { exact: true }).waitFor();
    assert.equal(await page.evaluate(() => window.attacked), undefined);
    assert.deepEqual(await violations(page), []);
    assert.deepEqual(page.problems, []);
    await page.context().close();
  });

  test(`the list and the session show cost, model, directory, state and who is attached (${name})`, async () => {
    const id = `cost-${name}`;
    await server.session(id, "[[text:This costs something.]]");
    await server.api("PATCH", `sessions/${id}`, { name: `Costly ${name}` });
    const page = await open(browser, server, { size });
    await page.goto(`${server.url}#/sessions`);
    const row = page.getByRole("region", { name: "Sessions" }).getByRole("link", { name: new RegExp(`Costly ${name}`) });
    await row.getByText(/^\$\d/).waitFor();
    await row.getByText("project").waitFor();
    await row.click();
    await log(page).getByText("This costs something.", { exact: true }).waitFor();
    await conversation(page).getByText(/^\$\d/).waitFor({ state: "attached" });
    const { cost } = (await server.api("GET", `sessions/${id}`)).body;
    assert.ok(cost > 0);
    const other = await open(browser, server, { size });
    await other.goto(`${server.url}#/s/${id}`);
    await log(other).getByText("This costs something.", { exact: true }).waitFor();
    await conversation(other).getByText("2 watching").waitFor({ state: "attached" });
    const listed = (await server.api("GET", "sessions")).body.sessions.find((session) => session.id === id);
    assert.equal(listed.watching, 2);
    await server.api("POST", `sessions/${id}/prompts`, { text: `[[tool:bash {"command":"touch ${id}"}]]` });
    await page.goto(`${server.url}#/sessions`);
    await row.getByText("waits for an answer").waitFor();
    await server.api("POST", `sessions/${id}/cancel`);
    await other.context().close();
    await page.context().close();
  });
}

test("sleep and network loss: the page continues at its cursor", async () => {
  await server.session("asleep", "[[text:answer one]]");
  const page = await open(browser, server, { size: PHONE });
  await page.goto(`${server.url}#/s/asleep`);
  await log(page).getByText("answer one", { exact: true }).waitFor();
  await page.context().setOffline(true);
  await server.api("POST", "sessions/asleep/prompts", { text: "[[text:answer two]]" });
  await page.getByText("Connection lost. Reconnecting…").waitFor();
  await page.context().setOffline(false);
  await log(page).getByText("answer two", { exact: true }).waitFor();
  await server.api("POST", "sessions/asleep/prompts", { text: "[[text:answer three]]" });
  await log(page).getByText("answer three", { exact: true }).waitFor();
  const answers = await page.evaluate(() => [...document.querySelectorAll(".assistant")].map((item) => item.textContent.trim()));
  assert.deepEqual(answers, ["answer one", "answer two", "answer three"]);
  await page.context().close();
});

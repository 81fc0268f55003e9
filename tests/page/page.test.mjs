// The page in a real browser, against real servers: the way of a new user, and every part of the page.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { DESKTOP, open, PHONE, Server, shoot, startBrowser, startModel, violations } from "./harness.mjs";

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
const log = (page) => page.getByRole("region", { name: "Conversation" }).getByRole("log");

test("a new user goes from a link to an approval on a phone, across a kill of the server", async () => {
  const demo = await new Server("demo").start();
  try {
    const page = await open(browser, demo, { size: PHONE });
    assert.equal(new URL(page.url()).search, "", "the secret left the address");
    await inbox(page).waitFor({ state: "visible" });
    assert.deepEqual(await violations(page), []);
    await page.getByRole("button", { name: "New session" }).click();
    await page.getByRole("textbox", { name: "Prompt" }).fill("run `echo hello > greeting.txt`");
    await page.getByRole("button", { name: "Send" }).click();
    const request = page.getByRole("article").filter({ has: page.getByRole("heading", { name: "bash: echo hello > greeting.txt" }) });
    await request.waitFor();
    await shoot(page, "phone-approval");
    await demo.kill();
    await demo.start();
    await page.reload();
    await page.goto(`${demo.url}#/inbox`);
    await request.waitFor();
    await shoot(page, "phone-inbox");
    assert.deepEqual(await violations(page), []);
    await request.getByRole("button", { name: "Allow once" }).click();
    await request.waitFor({ state: "detached" });
    await page.getByText("Nothing waits for you.").waitFor();
    const [{ id }] = (await demo.api("GET", "sessions")).body.sessions;
    await page.goto(`${demo.url}#/s/${id}`);
    await log(page).getByText("done").first().waitFor({ state: "attached" });
    assert.deepEqual(page.problems, []);
  } finally {
    await demo.close();
  }
});

test("the conversation streams, and shows reasoning, tools, diffs, images and errors", async () => {
  const page = await open(browser, server);
  await page.getByRole("textbox", { name: "Prompt" }).fill("[[think:I should greet]][[text:# Hello\n\nThis is **bold**, with a [link](https://example.com) and:\n\n- one\n- two\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```rust\nfn main() {}\n```\n]][[tool:create {\"path\":\"hello.txt\",\"file_text\":\"one\\ntwo\\n\"}]][[tool:bash {\"command\":\"printf 'a\\\\nb\\\\n'; sleep 0.2; echo c\"}]][[text:All done.]]");
  await page.getByRole("button", { name: "Send" }).click();
  const write = inbox(page).getByRole("article").filter({ has: page.getByRole("heading", { name: /create: .*hello\.txt/ }) });
  await write.waitFor();
  await write.getByText("+one").waitFor();
  await shoot(page, "desktop-approval");
  assert.deepEqual(await violations(page), []);
  await write.getByRole("button", { name: "Allow once" }).click();
  await inbox(page).getByRole("heading", { name: /bash: printf/ }).waitFor();
  await inbox(page).getByRole("button", { name: "More…" }).click();
  await shoot(page, "desktop-offers");
  await inbox(page).getByRole("button", { name: "Allow once" }).click();
  await log(page).getByText("All done.", { exact: true }).waitFor();
  assert.equal(await log(page).locator("strong", { hasText: "bold" }).count(), 1);
  assert.equal(await log(page).getByRole("cell", { name: "2" }).count(), 1);
  await log(page).getByText("Thinking").first().click();
  await log(page).getByText("I should greet").first().waitFor();
  await log(page).getByText("bash", { exact: true }).first().click();
  await log(page).getByText("Allowed", { exact: true }).first().waitFor();
  await shoot(page, "desktop-conversation");
  assert.deepEqual(await violations(page), []);
  await page.getByRole("textbox", { name: "Prompt" }).fill("[[error:400]]");
  await page.getByRole("button", { name: "Send" }).click();
  await log(page).getByText("Error").first().waitFor();
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("a denial with feedback reaches the model, and a turn can be cancelled", async () => {
  await server.session("deny", "[[tool:bash {\"command\":\"touch never\"}]][[hang]]");
  const page = await open(browser, server);
  await page.goto(`${server.url}#/s/deny`);
  const request = inbox(page).getByRole("article").filter({ hasText: "touch never" });
  await request.getByRole("button", { name: "More…" }).click();
  await request.getByLabel("Feedback for the model (optional)").fill("use ls instead");
  await request.getByRole("button", { name: "Deny with feedback" }).click();
  await request.waitFor({ state: "detached" });
  const events = await server.api("GET", "sessions/deny/events?limit=1000");
  const completed = events.body.events.map(({ event }) => event).find(({ type }) => type === "permission.completed");
  assert.match(JSON.stringify(completed), /use ls instead/);
  await page.getByRole("button", { name: "Cancel turn" }).click();
  await log(page).getByText("Cancelled", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Cancel turn" }).waitFor({ state: "hidden" });
  await page.context().close();
});

test("questions and plans are answered in place", async () => {
  await server.session("ask", "[[tool:ask_user {\"question\":\"Which colour?\",\"choices\":[\"red\",\"blue\"]}]][[text:Thanks.]]", { questions: true });
  const page = await open(browser, server, { size: PHONE });
  await inbox(page).getByRole("heading", { name: "Question: Which colour?" }).waitFor();
  await inbox(page).getByRole("button", { name: "blue" }).click();
  await inbox(page).getByRole("heading", { name: "Question: Which colour?" }).waitFor({ state: "detached" });
  await page.goto(`${server.url}#/s/ask`);
  await log(page).getByText("Thanks.", { exact: true }).waitFor();
  await page.context().close();
});

test("the queue is visible, and can be edited, steered and withdrawn", async () => {
  await server.session("queue", "[[hold:queue]]");
  for (const text of ["second", "third", "fourth"]) await server.api("POST", "sessions/queue/prompts", { text });
  const page = await open(browser, server);
  await page.goto(`${server.url}#/s/queue`);
  const queue = page.getByRole("region", { name: /^Queue/ });
  await queue.getByText("fourth").waitFor();
  await queue.getByRole("listitem").filter({ hasText: "third" }).getByRole("button", { name: "Withdraw" }).click();
  await queue.getByText("third").waitFor({ state: "detached" });
  await queue.getByRole("listitem").filter({ hasText: "second" }).getByRole("button", { name: "Edit" }).click();
  await queue.getByRole("textbox").fill("changed");
  await queue.getByRole("button", { name: "Save" }).click();
  await queue.getByText("changed").waitFor();
  await queue.getByRole("listitem").filter({ hasText: "fourth" }).getByRole("button", { name: "Move up" }).click();
  await page.waitForFunction(() => document.querySelector(".queue li")?.textContent?.startsWith("fourth"));
  await shoot(page, "desktop-queue");
  assert.deepEqual(await violations(page), []);
  await server.api("POST", "sessions/queue/cancel");
  await page.context().close();
});

test("sessions are found, renamed, forked, rewound, exported and deleted", async () => {
  await server.session("manage", "[[text:the needle in the haystack]]");
  await server.api("POST", "sessions/manage/prompts", { text: "[[text:second answer]]" });
  const page = await open(browser, server);
  const sessions = page.getByRole("region", { name: "Sessions" });
  await sessions.getByRole("searchbox").fill("NEEDLE in");
  await sessions.getByText("1 found").waitFor();
  await sessions.getByRole("link").first().click();
  await log(page).getByText("second answer", { exact: true }).waitFor();
  await page.getByText("working").first().waitFor({ state: "hidden" });
  await page.getByLabel("Session settings").click();
  await page.getByRole("button", { name: "Rename…" }).click();
  await page.getByRole("textbox", { name: "Name" }).fill("A better name");
  await page.getByRole("button", { name: "Rename", exact: true }).click();
  await page.getByRole("heading", { name: "A better name" }).waitFor();
  await log(page).getByRole("button", { name: "Rewind" }).last().click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("Rewind to before this prompt?").waitFor();
  assert.deepEqual(await violations(page), []);
  await shoot(page, "desktop-rewind");
  await dialog.getByRole("button", { name: "Rewind conversation" }).click();
  await log(page).getByText("second answer", { exact: true }).waitFor({ state: "detached" });
  await log(page).getByText("The conversation was rewound to here").waitFor();
  await page.getByLabel("Session settings").click();
  const download = page.waitForEvent("download");
  await page.getByRole("link", { name: "Export" }).click();
  assert.equal((await download).suggestedFilename(), "manage.jsonl");
  await page.getByRole("button", { name: "Fork", exact: true }).first().click();
  await page.getByText("This is the copy.").waitFor();
  await page.goto(`${server.url}#/s/manage`);
  await page.getByRole("heading", { name: "A better name" }).waitFor();
  await page.getByLabel("Session settings").click();
  await page.getByRole("button", { name: "Delete…" }).click();
  const deleted = page.waitForResponse((response) => response.request().method() === "DELETE");
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await deleted;
  await sessions.getByRole("searchbox").fill("");
  assert.equal((await server.api("GET", "sessions/manage")).status, 404);
  await page.context().close();
});

test("attachments are pasted and dropped", async () => {
  const page = await open(browser, server);
  const png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
  await page.getByRole("textbox", { name: "Prompt" }).evaluate((field, data) => {
    const bytes = Uint8Array.from(atob(data), (c) => c.charCodeAt(0));
    const transfer = new DataTransfer();
    transfer.items.add(new File([bytes], "pasted.png", { type: "image/png" }));
    field.dispatchEvent(new ClipboardEvent("paste", { clipboardData: transfer, bubbles: true, cancelable: true }));
    const dropped = new DataTransfer();
    dropped.items.add(new File(["hello"], "notes.txt", { type: "text/plain" }));
    field.dispatchEvent(new DragEvent("drop", { dataTransfer: dropped, bubbles: true, cancelable: true }));
  }, png);
  await page.getByText("pasted.png").waitFor();
  await page.getByText("notes.txt").waitFor();
  await page.getByRole("textbox", { name: "Prompt" }).fill("[[text:seen]]");
  await page.getByRole("button", { name: "Send" }).click();
  await log(page).getByText("seen", { exact: true }).waitFor();
  await log(page).getByRole("img", { name: "pasted.png" }).waitFor();
  await page.context().close();
});

test("every screen fits from 320 px to wide, in light and dark", async () => {
  await server.session("fits", `[[text:${"long".repeat(60)} and \`code${"x".repeat(200)}\`\n\n| ${"cell".repeat(30)} | b |\n|---|---|\n| 1 | 2 |]][[tool:bash {"command":"echo ${"y".repeat(300)}"}]]`);
  for (const [width, dark] of [[320, false], [390, true], [768, false], [1024, true], [1360, false], [1920, true]]) {
    const page = await open(browser, server, { size: { width, height: 800 }, dark });
    for (const screen of ["#/inbox", "#/sessions", "#/new", "#/s/fits"]) {
      await page.goto(`${server.url}${screen}`);
      if (screen === "#/s/fits") await log(page).getByText("bash").first().waitFor();
      const wider = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth || document.body.scrollWidth > innerWidth);
      assert.equal(wider, false, `${screen} at ${width}`);
      await shoot(page, `fit-${width}-${screen.split("/")[1]}`);
      if (width === 320 || width === 1024) assert.deepEqual(await violations(page), [], `${screen} at ${width}`);
    }
    assert.deepEqual(page.problems, []);
    await page.context().close();
  }
  await server.api("POST", "sessions/fits/cancel");
});

test("all works with the keyboard alone", async () => {
  await server.session("keys", "[[tool:bash {\"command\":\"touch keyed\"}]][[text:typed]]");
  const page = await open(browser, server, { size: DESKTOP });
  await inbox(page).getByRole("heading", { name: "bash: touch keyed" }).waitFor();
  for (let presses = 0; presses < 60; presses += 1) {
    await page.keyboard.press("Tab");
    if (await page.evaluate(() => document.activeElement?.textContent === "Allow once")) break;
  }
  await page.keyboard.press("Enter");
  await inbox(page).getByRole("heading", { name: "bash: touch keyed" }).waitFor({ state: "detached" });
  await page.getByRole("textbox", { name: "Prompt" }).focus();
  await page.keyboard.type("[[text:from the keyboard]]");
  await page.keyboard.press("Enter");
  await log(page).getByText("from the keyboard", { exact: true }).waitFor();
  await page.context().close();
});

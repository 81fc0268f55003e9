// The page never loses its place: kills, restarts, lost networks, ended logins, reloads, long histories.

import assert from "node:assert/strict";
import { once } from "node:events";
import { after, before, test } from "node:test";
import { open, PHONE, Server, startBrowser, startModel } from "./harness.mjs";

let browser, model;

before(async () => {
  [browser, model] = await Promise.all([startBrowser(), startModel()]);
});

after(async () => {
  await browser?.close();
  model?.close();
});

const log = (page) => page.getByRole("log");
const texts = (page) => page.evaluate(() => [...document.querySelectorAll(".bubble, .assistant")].map((item) => item.textContent.trim()));

test("a killed server comes back under an open page, with nothing lost or twice", async () => {
  const server = await new Server(model.url).start();
  try {
    await server.session("kept", "[[text:first answer]]");
    const page = await open(browser, server);
    await page.goto(`${server.url}#/s/kept`);
    await log(page).getByText("first answer", { exact: true }).waitFor();
    await page.getByRole("textbox", { name: "Prompt" }).fill("a draft that survives");
    await server.kill();
    await page.getByText("Connection lost. Reconnecting…").waitFor();
    await server.start();
    await page.getByText("Connection lost. Reconnecting…").waitFor({ state: "detached" });
    await server.api("POST", "sessions/kept/prompts", { text: "[[text:second answer]]" });
    await log(page).getByText("second answer", { exact: true }).waitFor();
    const shown = await texts(page);
    assert.deepEqual(shown.map((text) => text.includes("first answer")), [true, true, false, false], JSON.stringify(shown));
    assert.equal(await page.getByRole("textbox", { name: "Prompt" }).inputValue(), "a draft that survives");
    await page.reload();
    await log(page).getByText("second answer", { exact: true }).waitFor();
    assert.equal(await page.getByRole("textbox", { name: "Prompt" }).inputValue(), "a draft that survives");
    assert.deepEqual(await texts(page), shown);
    await page.getByRole("textbox", { name: "Prompt" }).fill("");
    await page.context().close();
  } finally {
    await server.close();
  }
});

test("a turn that a killed server left can be continued", async () => {
  const server = await new Server(model.url).start();
  try {
    await server.session("left", "[[drop*0]][[hold:left]][[text:never]]");
    const page = await open(browser, server, { size: PHONE });
    await page.goto(`${server.url}#/s/left`);
    await page.getByRole("button", { name: "Cancel turn" }).waitFor();
    await server.kill();
    await server.start();
    await page.getByText("The server stopped during this turn.").waitFor();
    await page.getByRole("button", { name: "Continue turn" }).click();
    await page.getByText("The server stopped during this turn.").waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Cancel turn" }).click();
    await log(page).getByText("Cancelled", { exact: true }).waitFor();
    await page.context().close();
  } finally {
    await server.close();
  }
});

test("an ended login leads back to the same place, with the draft", async () => {
  const server = await new Server(model.url).start();
  try {
    await server.session("login", "[[text:an answer]]");
    const page = await open(browser, server);
    await page.goto(`${server.url}#/s/login`);
    await log(page).getByText("an answer", { exact: true }).waitFor();
    await page.getByRole("textbox", { name: "Prompt" }).fill("half a thought");
    await page.context().clearCookies();
    // Whatever the page asks for next is refused.
    await page.getByRole("button", { name: "Send" }).click({ timeout: 2000 }).catch(() => {});
    await page.getByText("Your login has ended").waitFor();
    await page.getByLabel("Login link or token").fill("wrong");
    await page.getByRole("button", { name: "Log in" }).click();
    await page.getByRole("alert").getByText("wrong, expired or was used").waitFor();
    await page.getByLabel("Login link or token").fill(await server.link());
    await page.getByRole("button", { name: "Log in" }).click();
    await log(page).getByText("an answer", { exact: true }).waitFor();
    assert.equal(await page.getByRole("textbox", { name: "Prompt" }).inputValue(), "half a thought");
    await page.context().close();
  } finally {
    await server.close();
  }
});

test("a prompt whose response was lost is accepted once", async () => {
  const server = await new Server(model.url).start();
  try {
    await server.session("once");
    const page = await open(browser, server);
    await page.goto(`${server.url}#/s/once`);
    let lost = 0;
    await page.route("**/prompts", async (route) => {
      if (lost++) return route.continue();
      await route.fetch();
      return route.abort();
    });
    await page.getByRole("textbox", { name: "Prompt" }).fill("[[text:only once]]");
    await page.getByRole("button", { name: "Send" }).click();
    await page.getByText("Not sent: the server cannot be reached.").waitFor();
    await page.getByRole("button", { name: "Send" }).click();
    await page.waitForFunction(() => document.querySelector("textarea")?.value === "");
    await log(page).getByText("only once", { exact: true }).waitFor();
    const { events } = (await server.api("GET", "sessions/once/events?limit=1000")).body;
    assert.equal(events.filter(({ event }) => event.type === "baton.prompt_accepted").length, 1);
    await page.context().close();
  } finally {
    await server.close();
  }
});

test("a long session opens at its end, and grows upwards", async () => {
  const server = await new Server(model.url).start();
  try {
    await server.session("long", "[[text:answer 0]]");
    for (let at = 1; at < 90; at += 1) await server.api("POST", "sessions/long/prompts", { text: `[[text:answer ${at}]]` });
    for (;;) {
      const { busy } = (await server.api("GET", "sessions/long")).body;
      if (!busy) break;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    const page = await open(browser, server, { size: PHONE });
    await page.goto(`${server.url}#/s/long`);
    await log(page).getByText("answer 89", { exact: true }).waitFor();
    assert.equal(await log(page).getByText("answer 0", { exact: true }).count(), 0, "the start is not loaded");
    for (let tries = 0; tries < 40 && !(await log(page).getByText("answer 0", { exact: true }).count()); tries += 1) {
      await log(page).evaluate((element) => { element.scrollTop = 0; });
      await page.waitForTimeout(50);
    }
    const answers = await page.evaluate(() => [...document.querySelectorAll(".assistant")].map((item) => item.textContent.trim()));
    assert.deepEqual(answers, Array.from({ length: 90 }, (_, at) => `answer ${at}`));
    await page.context().close();
  } finally {
    await server.close();
  }
});

test("the page works under a path prefix behind a proxy", async () => {
  const { createServer, request } = await import("node:http");
  const server = await new Server(model.url).start();
  const proxy = createServer((incoming, outgoing) => {
    if (!incoming.url.startsWith("/tools/baton/")) {
      outgoing.statusCode = 404;
      return outgoing.end();
    }
    const { hostname, port } = new URL(server.url);
    const forwarded = request({ hostname, port, method: incoming.method, path: incoming.url.slice("/tools/baton".length), headers: incoming.headers }, (answer) => {
      outgoing.writeHead(answer.statusCode, answer.headers);
      answer.pipe(outgoing);
    });
    forwarded.on("error", () => outgoing.destroy());
    incoming.pipe(forwarded);
  }).listen(0, "127.0.0.1");
  await once(proxy, "listening");
  try {
    const base = `http://127.0.0.1:${proxy.address().port}/tools/baton/`;
    const link = (await server.link()).replace(server.url, base);
    const page = await open(browser, server, { link });
    assert.equal(page.url().split("#")[0], base);
    await page.getByRole("textbox", { name: "Prompt" }).fill("[[text:behind a proxy]]");
    await page.getByRole("button", { name: "Send" }).click();
    await log(page).getByText("behind a proxy", { exact: true }).waitFor();
    assert.deepEqual((await page.context().cookies()).map(({ path }) => path), ["/tools/baton"]);
    assert.deepEqual(page.problems, []);
    await page.context().close();
  } finally {
    proxy.closeAllConnections();
    proxy.close();
    await server.close();
  }
});

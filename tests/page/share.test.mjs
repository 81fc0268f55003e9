// The way of a new user with a phone: `baton serve --share`, the link on the terminal, a tapped approval, across a kill.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { open, PHONE, programs, startBrowser } from "./harness.mjs";

/** `baton serve --share` on a terminal of its own. */
class Terminal {
  constructor(address) {
    this.home = mkdtempSync(join(tmpdir(), "baton-share-"));
    this.work = join(this.home, "project");
    mkdirSync(this.work);
    this.address = address;
  }

  /** Starts the server. Returns the link that it prints. */
  async start() {
    const pidFile = join(this.home, "pid");
    const serve = `exec ${join(programs, "baton")} serve --share --demo --home ${join(this.home, "state")} --http ${this.address}`;
    // `script` gives it a terminal: the link is printed on one only.
    this.child = spawn("script", ["--quiet", "--flush", "--return", "--command", `echo $$ >${pidFile}; ${serve}`, "/dev/null"], {
      cwd: this.work, env: { PATH: process.env.PATH, HOME: this.home, TERM: "xterm", SHELL: "/bin/sh" }, stdio: ["pipe", "pipe", "inherit"],
    });
    let out = "";
    const link = await new Promise((resolve, reject) => {
      this.child.stdout.on("data", (data) => {
        out += data;
        const found = /(http:\/\/\S+\/\?login=[\w-]+)/.exec(out);
        if (found && /listening on/.test(out)) resolve(found[1]);
      });
      this.child.on("exit", (code) => reject(new Error(`the server ended with ${code}: ${out}`)));
    });
    this.pid = Number(readFileSync(pidFile, "utf8"));
    this.address = new URL(link).host;
    this.url = `${new URL(link).origin}/`;
    return link;
  }

  async kill() {
    const ended = once(this.child, "close");
    process.kill(this.pid, "SIGKILL");
    await ended;
  }

  async close() {
    if (this.child.exitCode === null && this.child.signalCode === null) await this.kill();
    rmSync(this.home, { recursive: true, force: true, maxRetries: 5 });
  }
}

test("a new user with a phone goes from `serve --share` to a tapped approval within a minute, across a kill", async () => {
  const browser = await startBrowser();
  const server = new Terminal("127.0.0.1:0");
  try {
    const began = Date.now();
    const page = await open(browser, server, { size: PHONE, link: await server.start() });
    assert.equal(page.url(), server.url, "the link's secret is gone from the address");
    const inbox = page.getByRole("region", { name: "Inbox" });
    await inbox.waitFor();
    await page.getByRole("button", { name: "New session" }).tap();
    await page.getByRole("textbox", { name: "Prompt" }).fill("run `echo hello > greeting.txt`");
    await page.getByRole("button", { name: "Send" }).tap();
    const request = page.getByRole("article").filter({ has: page.getByRole("heading", { name: "bash: echo hello > greeting.txt" }) });
    await request.waitFor();
    await server.kill();
    assert.equal(existsSync(join(server.work, "greeting.txt")), false);
    // The page stays open, as on a phone in a pocket. The next link is not needed: the login survives.
    await server.start();
    await page.getByText("Connection lost. Reconnecting…").waitFor({ state: "detached" });
    await request.getByRole("button", { name: "Allow once" }).tap();
    await request.waitFor({ state: "detached" });
    await page.getByRole("log").getByText(/greeting\.txt|done/).first().waitFor({ state: "attached" });
    for (let tries = 0; !existsSync(join(server.work, "greeting.txt")); tries += 1) {
      assert.ok(tries < 400, "the approved command did not run");
      await page.waitForTimeout(50);
    }
    assert.equal(readFileSync(join(server.work, "greeting.txt"), "utf8"), "hello\n");
    assert.ok(Date.now() - began < 60_000, "longer than a minute");
    assert.deepEqual(page.problems, []);
  } finally {
    await browser.close();
    await server.close();
  }
});

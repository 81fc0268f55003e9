// The page of one server shows the sessions of all, in Debian's Chromium; inside `with-cluster`.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { open, Server, shoot, startBrowser, startModel } from "../page/harness.mjs";

let browser, model, one, two, three;

/** A server that shares its sessions. */
class SharingServer extends Server {
  constructor(model, store) {
    super(model);
    this.store = store;
  }

  get env() {
    return { ...super.env, BATON_STORE: this.store, BATON_PEER_SECRET: "secret-of-the-test-cluster" };
  }
}

/** Creates a database in the cluster, and returns its URL. */
function database() {
  const base = process.env.BATON_TEST_POSTGRES;
  const name = `page_${process.pid}`;
  execFileSync("psql", ["-qX", `${base}&dbname=postgres`, "-c", `CREATE DATABASE ${name}`]);
  return `${base}&dbname=${name}`;
}

before(async () => {
  [browser, model] = await Promise.all([startBrowser(), startModel()]);
  const store = database();
  [one, two, three] = [1, 2, 3].map(() => new SharingServer(model.url, store));
  for (const server of [one, two, three]) await server.start();
});

after(async () => {
  await browser?.close();
  for (const server of [one, two, three]) await server?.close();
  model?.close();
});

const inbox = (page) => page.getByRole("region", { name: "Inbox" });
const sessions = (page) => page.getByRole("region", { name: "Sessions" });
const log = (page) => page.getByRole("region", { name: "Conversation" }).getByRole("log");

test("a request of another server's session appears in the page, and is approved there", { timeout: 120_000 }, async () => {
  const page = await open(browser, two);
  await one.session("remote", '[[tool:bash {"command":"touch approved"}]][[text:It was approved.]]');
  const listed = sessions(page).getByRole("link").filter({ hasText: "touch approved" });
  await listed.waitFor();
  const request = inbox(page).getByRole("article").filter({ has: page.getByRole("heading", { name: "bash: touch approved" }) });
  await request.waitFor();
  await shoot(page, "servers-pending");
  assert.ok(!existsSync(join(one.work, "approved")), "it waits");
  await request.getByRole("button", { name: "Allow once" }).click();
  await request.waitFor({ state: "detached" });
  await listed.click();
  await log(page).getByText("It was approved.", { exact: true }).waitFor();
  await shoot(page, "servers-approved");
  assert.ok(existsSync(join(one.work, "approved")), "it ran where the session is");
  assert.deepEqual((await three.api("GET", "requests")).body.requests, []);

  // A session of the third server, while the page is open, and a second request of the first.
  await three.session("third", "[[text:From the third server.]]");
  await sessions(page).getByRole("link").filter({ hasText: "From the third server" }).waitFor();
  assert.deepEqual(page.problems, []);
});

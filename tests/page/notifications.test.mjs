// Notifications, from the event to receivers that check what they get: a webhook, Telegram, a push service that decrypts, and
// the service worker in a real browser.

import assert from "node:assert/strict";
import { createDecipheriv, createECDH, createHmac, createPublicKey, hkdfSync, randomBytes, verify } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { basename, dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { open, Server, startBrowser } from "./harness.mjs";

const SECRET = "0123456789abcdef0123456789abcdef";
const CHAT = 4711;

let browser;
before(async () => { browser = await startBrowser(); });
after(() => browser?.close());

/** An HTTP server that remembers requests, and answers as `answer` says. */
async function listen(answer, port = 0) {
  const requests = [];
  const waiting = new Set();
  const server = createServer((request, response) => {
    const chunks = [];
    request.on("data", (chunk) => chunks.push(chunk));
    request.on("end", async () => {
      const received = { path: request.url, headers: request.headers, body: Buffer.concat(chunks) };
      const { status = 200, body = "" } = (await answer?.(received)) ?? {};
      requests.push(received);
      response.writeHead(status, { "content-type": "application/json" }).end(body);
      for (const check of waiting) check();
    });
  });
  await new Promise((resolve) => server.listen(port, "127.0.0.1", resolve));
  return {
    requests,
    port: server.address().port,
    url: `http://127.0.0.1:${server.address().port}`,
    /** Waits for a request for which `wanted` returns something. */
    wait: (wanted) => new Promise((resolve) => {
      const check = () => {
        for (const request of requests) {
          const found = wanted(request);
          if (!found) continue;
          waiting.delete(check);
          resolve(found);
          return;
        }
      };
      waiting.add(check);
      check();
    }),
    close: () => new Promise((resolve) => { server.close(resolve); server.closeAllConnections(); }),
  };
}

/** A server with these lines in its configuration file. `@SECRET@` stands for a file with this secret. */
function configured(lines, secret = SECRET) {
  const server = new Server("demo");
  const file = join(server.home, ".config/baton/config.toml");
  const secretFile = join(server.home, "secret");
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(secretFile, `${secret}\n`, { mode: 0o600 });
  writeFileSync(file, lines.replace("@SECRET@", secretFile));
  return server;
}

/** Verifies a message as docs/notifications.md describes it. */
function verified({ headers, body }) {
  const id = headers["webhook-id"];
  const time = headers["webhook-timestamp"];
  assert.ok(Math.abs(Date.now() / 1000 - Number(time)) < 300);
  const expected = createHmac("sha256", SECRET).update(`${id}.${time}.`).update(body).digest("base64");
  assert.equal(headers["webhook-signature"], `v1,${expected}`);
  return { message: id, ...JSON.parse(body) };
}

const ask = "run `echo hello > greeting.txt`";

async function pending(server, id) {
  for (;;) {
    const { requests } = (await server.api("GET", `sessions/${id}/requests`)).body;
    if (requests?.length) return requests[0].requestId;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

test("a webhook is signed, survives a kill of the server under one id, and is withdrawn when somebody answers", async () => {
  const down = await listen(() => ({ status: 503 }));
  const server = configured(`[notifications]\ndelay_seconds = 1\n[notifications.webhook]\nurl = "${down.url}/hook"\nsecret_file = "@SECRET@"\n`);
  let up;
  try {
    await server.start();
    await server.session("hooked", ask);
    const request = await pending(server, "hooked");
    const first = await down.wait((received) => received);
    const { message, type, data } = verified(first);
    assert.equal(type, "request.waiting");
    assert.deepEqual(data.request, { id: request, kind: "permission", tool: "bash" });
    assert.deepEqual(Object.keys(data), ["id", "headline", "session", "request", "link"], "no details");
    assert.equal(data.session.title, basename(server.work), "the title comes from the prompt");
    assert.equal(data.link, `${server.url}#/s/hooked`);
    await server.kill();
    const { port } = down;
    await down.close();
    up = await listen(undefined, port);
    await server.start();
    const again = verified(await up.wait((received) => received));
    assert.equal(again.message, message, "one id for all attempts");
    const answered = await server.api("POST", `sessions/hooked/requests/${request}`, { kind: "permission", decision: "approve" });
    assert.equal(answered.status, 200);
    const withdrawn = await up.wait((received) => {
      const read = verified(received);
      return read.type === "notification.withdrawn" && read;
    });
    assert.equal(withdrawn.data.id, message);
    const ended = await up.wait((received) => {
      const read = verified(received);
      return read.type === "turn.ended" && read;
    });
    assert.equal(ended.data.turn.outcome, "completed");
    assert.equal(ended.data.session.id, "hooked");
    const metrics = (await server.api("GET", "metrics")).body;
    assert.match(metrics, /baton_notifications_total\{result="sent"\} [1-9]/);
  } finally {
    await down.close();
    await up?.close();
    await server.close();
  }
});

test("a request that is answered in time notifies nobody", async () => {
  const hook = await listen();
  const server = configured(`[notifications]\ndelay_seconds = 3600\n[notifications.webhook]\nurl = "${hook.url}"\nsecret_file = "@SECRET@"\n`);
  try {
    await server.start();
    await server.session("quick", ask);
    const request = await pending(server, "quick");
    await server.api("POST", `sessions/quick/requests/${request}`, { kind: "permission", decision: "approve" });
    await hook.wait((received) => verified(received).type === "turn.ended");
    assert.deepEqual(hook.requests.map((received) => verified(received).type), ["turn.ended"]);
    const tested = await server.baton("notify", "test");
    assert.match(tested.out, /^webhook +delivered/m);
    assert.equal(verified(hook.requests.at(-1)).type, "test");
  } finally {
    await server.close();
    await hook.close();
  }
});

/** A fake of Telegram's API. */
async function telegram() {
  const presses = [];
  let wake = () => {};
  let last = 0;
  const fake = await listen(async ({ path, body }) => {
    assert.ok(path.startsWith("/bot1:token/"), path);
    const method = path.split("/").at(-1);
    const { offset } = JSON.parse(body || "{}");
    const reply = (result) => ({ body: JSON.stringify({ ok: true, result }) });
    if (method === "sendMessage") return reply({ message_id: ++last });
    if (method !== "getUpdates") return reply(true);
    const left = () => presses.filter((press) => press.update_id >= offset);
    if (!left().length) await Promise.race([new Promise((resolve) => { wake = resolve; }), new Promise((resolve) => setTimeout(resolve, 300))]);
    return reply(left());
  });
  const calls = (method) => fake.requests.filter(({ path }) => path.endsWith(method)).map(({ body }) => JSON.parse(body));
  return {
    ...fake,
    calls,
    call: (method, wanted = () => true) => fake.wait(({ path, body }) => {
      if (!path.endsWith(method)) return null;
      const parsed = JSON.parse(body);
      return wanted(parsed) ? parsed : null;
    }),
    press: (data, user = CHAT, chat = CHAT) => {
      const update_id = presses.length + 1;
      presses.push({ update_id, callback_query: { id: `q${update_id}`, from: { id: user }, message: { chat: { id: chat } }, data } });
      wake();
    },
  };
}

async function withTelegram(details, work) {
  const fake = await telegram();
  const lines = `[notifications]\ndelay_seconds = 0\ndetails = "${details}"\n[notifications.telegram]\ntoken_file = "@SECRET@"\nchats = [${CHAT}]\napi = "${fake.url}"\n`;
  const server = configured(lines, "1:token");
  try {
    await server.start();
    await work(server, fake);
  } finally {
    await server.close();
    await fake.close();
  }
}

test("a button of Telegram answers once, for people of the list, and the message says who answered", () =>
  withTelegram("full", async (server, fake) => {
    await server.session("chatty", ask);
    const sent = await fake.call("sendMessage");
    assert.equal(sent.chat_id, CHAT);
    assert.match(sent.text, /echo hello > greeting\.txt/);
    const [[allow, deny]] = sent.reply_markup.inline_keyboard;
    assert.deepEqual([allow.text, deny.text], ["Allow once", "Deny"]);
    fake.press(allow.callback_data, 666, CHAT);
    fake.press(allow.callback_data, 666, 666);
    fake.press(allow.callback_data);
    fake.press(deny.callback_data);
    const edited = await fake.call("editMessageText");
    assert.match(edited.text, /Allowed once by telegram:4711\./);
    assert.equal(edited.message_id, 1);
    await fake.call("answerCallbackQuery", ({ text }) => text === "Already answered.");
    const { events } = (await server.api("GET", "sessions/chatty/events?limit=200")).body;
    const answers = events.filter(({ event }) => event.type === "permission.completed");
    assert.equal(answers.length, 1);
    assert.match(JSON.stringify(answers[0]), /telegram:4711/);
    assert.equal(fake.calls("answerCallbackQuery").length, 2, "strangers get no reply");
    await fake.call("sendMessage", ({ text }) => /Turn completed/.test(text));
  }));

test("without details, a message can deny and cannot allow; it changes when somebody answers elsewhere", () =>
  withTelegram("none", async (server, fake) => {
    await server.session("blind", ask);
    const sent = await fake.call("sendMessage");
    assert.equal(sent.text, `Permission needed: bash\n${basename(server.work)}\n${server.url}#/s/blind`, "nothing is from the session");
    const [[deny]] = sent.reply_markup.inline_keyboard;
    assert.equal(deny.text, "Deny");
    fake.press(deny.callback_data.replace("deny", "allow"));
    await fake.call("answerCallbackQuery", ({ text }) => /open the page/.test(text));
    const request = await pending(server, "blind");
    const answered = await server.api("POST", `sessions/blind/requests/${request}`, { kind: "permission", decision: "reject" });
    assert.equal(answered.status, 200);
    const edited = await fake.call("editMessageText");
    assert.match(edited.text, /Denied by HTTP API\./);
    assert.equal(edited.reply_markup, undefined);
  }));

/** Decrypts a message as a browser does (RFC 8291), with Node's own cryptography. */
function decrypted(receiver, auth, body) {
  const [salt, sender, record] = [body.subarray(0, 16), body.subarray(21, 21 + body[20]), body.subarray(21 + body[20])];
  const info = Buffer.concat([Buffer.from("WebPush: info\0"), receiver.getPublicKey(), sender]);
  const shared = hkdfSync("sha256", receiver.computeSecret(sender), auth, info, 32);
  const key = hkdfSync("sha256", Buffer.from(shared), salt, "Content-Encoding: aes128gcm\0", 16);
  const nonce = hkdfSync("sha256", Buffer.from(shared), salt, "Content-Encoding: nonce\0", 12);
  const cipher = createDecipheriv("aes-128-gcm", Buffer.from(key), Buffer.from(nonce));
  cipher.setAuthTag(record.subarray(-16));
  const plain = Buffer.concat([cipher.update(record.subarray(0, -16)), cipher.final()]);
  return JSON.parse(plain.subarray(0, plain.lastIndexOf(2)));
}

/** Checks who sends (RFC 8292). */
function proven({ headers }, key, origin) {
  const [, token, given] = /^vapid t=(\S+), k=(\S+)$/.exec(headers.authorization);
  assert.equal(given, key);
  const [head, claims, signature] = token.split(".");
  const point = Buffer.from(key, "base64url");
  const jwk = { kty: "EC", crv: "P-256", x: point.subarray(1, 33).toString("base64url"), y: point.subarray(33).toString("base64url") };
  const good = verify("sha256", Buffer.from(`${head}.${claims}`), { key: createPublicKey({ key: jwk, format: "jwk" }), dsaEncoding: "ieee-p1363" }, Buffer.from(signature, "base64url"));
  assert.ok(good, "the signature");
  const read = JSON.parse(Buffer.from(claims, "base64url"));
  assert.equal(read.aud, origin);
  assert.ok(read.exp > Date.now() / 1000 && read.exp <= Date.now() / 1000 + 86400);
}

function subscriber(endpoint) {
  const keys = createECDH("prime256v1");
  keys.generateKeys();
  const auth = randomBytes(16);
  return { keys, auth, json: { endpoint, keys: { p256dh: keys.getPublicKey().toString("base64url"), auth: auth.toString("base64url") } } };
}

test("a push message is encrypted for its browser, withdrawn under its topic, and ends with the person's access", async () => {
  const service = await listen(() => ({ status: 201 }));
  const server = configured("[notifications]\ndelay_seconds = 0\nturns = false\n[notifications.push]\nallow_private = true\n");
  try {
    await server.start();
    const { token } = JSON.parse((await server.baton("people", "add", "ada", "--role", "viewer", "--json")).out);
    const { publicKey } = (await server.api("GET", "notifications", undefined, { token })).body;
    const mine = subscriber(`${service.url}/ada`);
    const made = await server.api("POST", "notifications/subscriptions", mine.json, { token });
    assert.equal(made.status, 201);
    assert.equal((await server.api("DELETE", `notifications/subscriptions/${made.body.id}`)).status, 404, "only her own");
    await server.session("pushed", ask);
    const first = await service.wait((received) => received);
    proven(first, publicKey, service.url);
    const message = decrypted(mine.keys, mine.auth, first.body);
    assert.equal(message.title, "Permission needed: bash");
    assert.equal(message.link, "#/s/pushed");
    assert.equal(first.headers.topic, message.id);
    const request = await pending(server, "pushed");
    await server.api("POST", `sessions/pushed/requests/${request}`, { kind: "permission", decision: "reject" });
    const withdrawn = await service.wait((received) => received.headers.topic === message.id && received !== first && decrypted(mine.keys, mine.auth, received.body));
    assert.equal(withdrawn.withdrawn, true);
    const before = service.requests.length;
    await server.baton("people", "remove", "ada");
    const owners = subscriber(`${service.url}/owner`);
    await server.api("POST", "notifications/subscriptions", owners.json);
    await server.session("later", ask);
    const last = await service.wait((received) => received.path === "/owner" && decrypted(owners.keys, owners.auth, received.body));
    assert.equal(last.link, "#/s/later");
    assert.ok(service.requests.slice(before).every(({ path }) => path === "/owner"), "a removed person receives nothing");
  } finally {
    await server.close();
    await service.close();
  }
});

test("addresses of strangers must be public", async () => {
  const server = await configured("").start();
  try {
    for (const endpoint of ["http://127.0.0.1:9/x", "https://127.0.0.1/x", "https://169.254.169.254/x", "https://[::1]/x", "file:///etc/passwd"]) {
      const refused = await server.api("POST", "notifications/subscriptions", subscriber(endpoint).json);
      assert.equal(refused.status, 422, endpoint);
    }
  } finally {
    await server.close();
  }
});

test("the service worker shows, replaces and withdraws notifications, and the page can be installed", async () => {
  const server = await configured("").start();
  try {
    const page = await open(browser, server);
    await page.context().grantPermissions(["notifications"], { origin: new URL(server.url).origin });
    const session = await page.context().newCDPSession(page);
    const registration = new Promise((resolve) => {
      session.on("ServiceWorker.workerVersionUpdated", ({ versions }) => {
        const active = versions.find(({ status }) => status === "activated");
        if (active) resolve(active.registrationId);
      });
    });
    await session.send("ServiceWorker.enable");
    const registrationId = await registration;
    const push = (message) => session.send("ServiceWorker.deliverPushMessage", { origin: new URL(server.url).origin, registrationId, data: JSON.stringify(message) });
    const shown = () => page.evaluate(async () => {
      const ready = await navigator.serviceWorker.ready;
      return (await ready.getNotifications()).map(({ tag, title, body }) => ({ tag, title, body }));
    });
    const until = async (count) => {
      for (;;) {
        const found = await shown();
        if (found.length === count) return found;
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
    };
    await push({ id: "a", title: "Permission needed: bash", body: "<b>My session</b>", link: "#/s/x", waits: true });
    assert.deepEqual(await until(1), [{ tag: "a", title: "Permission needed: bash", body: "<b>My session</b>" }]);
    await push({ id: "a", withdrawn: true, body: "Answered" });
    await until(0);
    const { installabilityErrors } = await session.send("Page.getInstallabilityErrors");
    assert.deepEqual(installabilityErrors.filter(({ errorId }) => errorId !== "in-incognito"), []);
    await page.getByRole("button", { name: /Account/ }).click();
    const section = page.getByRole("region", { name: "Notifications" });
    await section.getByRole("button", { name: "Turn on notifications" }).waitFor();
    assert.deepEqual(page.problems, []);
  } finally {
    await server.close();
  }
});

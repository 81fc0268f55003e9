// Real servers and a real browser for the tests of the page.

import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, mkdirSync, existsSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { once } from "node:events";

const require = createRequire(join(process.env.BATON_PAGE_MODULES ?? import.meta.dirname, "x.js"));
const { chromium } = require("playwright-core");
export const axeSource = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
export const programs = process.env.BATON_BIN_DIR ?? join(import.meta.dirname, "../../target/debug");

export const PHONE = { width: 390, height: 780 };
export const DESKTOP = { width: 1360, height: 850 };

/** Directory for screenshots; none are kept without it. */
const shots = process.env.BATON_SCREENSHOTS;

/** The path of the browser, which `scripts/debian-packages` may have unpacked. */
function chromiumOnPath() {
  const found = process.env.PATH.split(":").map((directory) => join(directory, "chromium")).find(existsSync);
  if (!found) throw new Error("chromium is not on the PATH; run `scripts/test page`, or set BATON_CHROMIUM");
  return found;
}

/** Starts the browser. */
export function startBrowser() {
  const args = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
  return chromium.launch({ executablePath: process.env.BATON_CHROMIUM ?? chromiumOnPath(), args });
}

/** Runs a program to its end. Returns what it printed. */
export async function run(command, args, options = {}) {
  const child = spawn(command, args, { stdio: ["ignore", "pipe", "pipe"], ...options });
  let out = "";
  let errors = "";
  child.stdout.on("data", (data) => (out += data));
  child.stderr.on("data", (data) => (errors += data));
  const [code] = await once(child, "close");
  if (code !== 0 && !options.mayFail) throw new Error(`${command} ${args.join(" ")} exited with ${code}: ${errors}`);
  return { code, out, errors };
}

/** A server with a home of its own. `model` is `demo` or the URL of a scripted model. */
export class Server {
  constructor(model = "demo", flags = []) {
    this.home = mkdtempSync(join(tmpdir(), "baton-page-"));
    this.work = join(this.home, "project");
    mkdirSync(this.work);
    this.model = model;
    this.flags = flags;
    this.address = "127.0.0.1:0";
  }

  get env() {
    const env = { PATH: process.env.PATH, HOME: this.home, TMPDIR: process.env.TMPDIR ?? "/tmp" };
    if (this.model !== "demo") Object.assign(env, { OPENAI_BASE_URL: this.model, OPENAI_API_KEY: "key-of-the-scripted-model" });
    return env;
  }

  async start() {
    const flags = [...(this.model === "demo" ? ["--demo"] : []), ...this.flags];
    this.child = spawn(join(programs, "baton"), ["serve", "--home", join(this.home, "state"), "--http", this.address, ...flags],
      { cwd: this.work, env: this.env, stdio: ["ignore", "pipe", "pipe"] });
    this.log = "";
    this.child.stderr.on("data", (data) => (this.log += data));
    let out = "";
    this.url = await new Promise((resolve, reject) => {
      this.child.stdout.on("data", (data) => {
        out += data;
        const found = /listening on (https?:\S+)\n/.exec(out);
        if (found) resolve(`${found[1]}/`);
      });
      this.child.on("exit", (code) => reject(new Error(`the server ended with ${code}: ${this.log}`)));
    });
    // The same port after a restart.
    this.address = new URL(this.url).host;
    this.token = readFileSync(join(this.home, "state/token"), "utf8").trim();
    return this;
  }

  /** Ends the server as a power cut would. */
  async kill() {
    const ended = once(this.child, "close");
    this.child.kill("SIGKILL");
    await ended;
  }

  async close() {
    if (this.child.exitCode === null && this.child.signalCode === null) await this.kill();
    rmSync(this.home, { recursive: true, force: true, maxRetries: 5 });
  }

  /** Runs a command of the program on this home. */
  baton(...args) {
    return run(join(programs, "baton"), [...args, "--home", join(this.home, "state")], { env: this.env, cwd: this.work });
  }

  async link(...flags) {
    return (await this.baton("link", ...flags)).out.trim();
  }

  /** Sends a request to the API. */
  async api(method, path, body, { token = this.token, ...headers } = {}) {
    const response = await fetch(`${this.url}api/${path}`, {
      method,
      headers: { Authorization: `Bearer ${token}`, ...(body === undefined ? {} : { "Content-Type": "application/json" }), ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await response.text();
    let json = null;
    try {
      json = text ? JSON.parse(text) : null;
    } catch {
      json = text;
    }
    return { status: response.status, body: json };
  }

  async session(id, prompt, settings = {}) {
    const made = await this.api("POST", "sessions", { id, ...settings });
    if (made.status !== 201) throw new Error(JSON.stringify(made.body));
    if (prompt) await this.api("POST", `sessions/${id}/prompts`, { text: prompt });
  }
}

/** Starts the scripted model. */
export async function startModel() {
  const child = spawn(process.env.BATON_SCRIPTED_MODEL ?? join(programs, "baton-scripted-model"), [], { stdio: ["ignore", "pipe", "inherit"] });
  const [line] = await once(child.stdout, "data");
  return { url: `http://${/listening (\S+)/.exec(String(line))[1]}/v1`, close: () => child.kill() };
}

/** Opens a browser window, logged in by a one-time link, and watches for violations of the content security policy. */
export async function open(browser, server, { size = DESKTOP, person, dark = false, link } = {}) {
  const context = await browser.newContext({ viewport: size, colorScheme: dark ? "dark" : "light", hasTouch: size.width < 700, reducedMotion: "reduce" });
  await withAssets(context);
  const page = await context.newPage();
  page.problems = [];
  page.on("console", (message) => {
    const text = message.text();
    if (message.type() === "error" && !/ERR_|401|409|403|404|Failed to load resource/.test(text)) page.problems.push(text);
  });
  page.on("pageerror", (error) => page.problems.push(String(error)));
  await page.goto(link ?? (await server.link(...(person ? ["--person", person] : []))));
  await page.getByRole("region", { name: "Inbox" }).waitFor({ state: "attached" });
  return page;
}

/** While the page is written: files come from the folder instead of the program. */
async function withAssets(context) {
  const folder = process.env.BATON_PAGE_ASSETS;
  if (!folder) return;
  await context.route("**/files/**", async (route) => {
    const file = join(folder, new URL(route.request().url()).pathname.split("/").at(-1));
    if (!existsSync(file)) return route.continue();
    const response = await route.fetch();
    return route.fulfill({ response, body: readFileSync(file), headers: { ...response.headers(), "cache-control": "no-store", "content-encoding": "identity" } });
  });
}

/** Saves a screenshot under a name, if they are wanted. */
export async function shoot(page, name) {
  if (shots) await page.screenshot({ path: join(shots, `${name}.png`), animations: "disabled" });
}

/** Returns the violations that axe finds. */
export async function violations(page) {
  // The policy of the page forbids injected scripts; evaluating in the page's world does not.
  await page.evaluate(axeSource);
  const found = await page.evaluate(async () => {
    const { violations } = await window.axe.run(document, { resultTypes: ["violations"] });
    return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html, failureSummary }) => `${html.slice(0, 160)} (${failureSummary})`).join(" | ")}`);
  });
  return found;
}

// Helpers of the tests: the programs under test, and functions that wait for events instead of sleeping.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, mkdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

export const REPOSITORY = join(dirname(fileURLToPath(import.meta.url)), "../../..");

/** How long to wait for an event, in milliseconds. Only failing tests wait that long. */
const TIMEOUT = 15_000;

export const program = (name) => join(process.env.BATON_BIN_DIR ?? join(REPOSITORY, "target/debug"), name);

async function spawnProgram(name, args, options) {
    const child = spawn(program(name), args, { stdio: ["ignore", "pipe", "inherit"], ...options });
    const [line] = await once(createInterface({ input: child.stdout }), "line");
    return { child, line };
}

/** A scripted model in a separate process. Prompts contain its answers: `[[text:hello]]`. */
export class Model {
    static async start() {
        const model = new Model();
        const { child, line } = await spawnProgram("baton-scripted-model", []);
        Object.assign(model, { child, url: `http://${line.split(" ")[1]}` });
        return model;
    }

    release(hold) {
        return fetch(`${this.url}/_release/${hold}`, { method: "POST" });
    }

    /** Returns the bodies of all chat requests so far. */
    async requests() {
        const all = await (await fetch(`${this.url}/_requests`)).json();
        return all.filter((request) => request.path.endsWith("/chat/completions")).map((request) => request.body);
    }
}

/** The private environment of one test: a model, a home, a working directory, clients and servers. */
export class World {
    clients = [];
    servers = [];

    static async open(sdk) {
        const world = new World();
        const root = await mkdtemp(join(tmpdir(), "baton-node-"));
        Object.assign(world, { sdk, root, work: join(root, "work"), model: await Model.start() });
        await mkdir(world.work);
        world.env = {
            PATH: process.env.PATH,
            HOME: root,
            COPILOT_HOME: join(root, "home"),
            COPILOT_API_URL: world.model.url,
        };
        return world;
    }

    async client() {
        return this.#started(this.sdk.stdio(program("baton"), this.env, this.work));
    }

    async tcpClient() {
        return this.#started(this.sdk.tcp(program("baton"), this.env, this.work));
    }

    async clientAt(port, token) {
        return this.#started(this.sdk.at(port, token));
    }

    async #started(client) {
        this.clients.push(client);
        await client.start();
        return client;
    }

    async server(token) {
        const env = token ? { ...this.env, COPILOT_CONNECTION_TOKEN: token } : this.env;
        const { child, line } = await spawnProgram("baton", ["--headless", "--log-level", "info"], { env, cwd: this.work });
        this.servers.push(child);
        return { port: Number(line.split(" ").at(-1)), kill: () => end(child, "SIGKILL") };
    }

    /** Starts a server with both doors. */
    async serve() {
        const flags = ["serve", "--port", "0", "--http", "127.0.0.1:0", "--log-level", "error"];
        const child = spawn(program("baton"), flags, { env: this.env, cwd: this.work, stdio: ["ignore", "pipe", "inherit"] });
        this.servers.push(child);
        let [port, url] = [];
        for await (const line of createInterface({ input: child.stdout })) {
            port ??= /port (\d+)/.exec(line)?.[1];
            url ??= /(http:\S+)/.exec(line)?.[1];
            if (port && url) break;
        }
        const token = (await readFile(join(this.env.COPILOT_HOME, "token"), "utf8")).trim();
        const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
        const api = async (method, path, body) =>
            (await fetch(`${url}/api/${path}`, { method, headers, body: JSON.stringify(body) })).json();
        return { port: Number(port), token, api, feed: () => Feed.open(`${url}/api/events`, headers) };
    }

    create(client, options = {}) {
        return client.createSession({ onPermissionRequest: this.sdk.approveAll, ...options });
    }

    resume(client, id, options = {}) {
        return client.resumeSession(id, { onPermissionRequest: this.sdk.approveAll, ...options });
    }

    async close() {
        await Promise.all(this.clients.map((client) => client.forceStop()));
        await Promise.all(this.servers.map((child) => end(child, "SIGTERM")));
        await end(this.model.child, "SIGKILL");
        await rm(this.root, { recursive: true, force: true, maxRetries: 3 });
    }
}

/** The changes of all sessions, as the page reads them. */
class Feed {
    #text = "";
    #reader;

    static async open(url, headers) {
        const feed = new Feed();
        const response = await fetch(url, { headers: { ...headers, Accept: "text/event-stream" } });
        feed.#reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
        await feed.until(/event: ready/);
        return feed;
    }

    /** Reads until the text so far matches. */
    async until(pattern) {
        while (!pattern.test(this.#text)) {
            const { value, done } = await this.#reader.read();
            if (done) throw new Error(`the feed ended before ${pattern}: ${this.#text}`);
            this.#text += value;
        }
    }

    close() {
        return this.#reader.cancel();
    }
}

async function end(child, signal) {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, "exit");
    child.kill(signal);
    await exited;
}

/** Records all events of a session that one client receives. */
export class Watch {
    events = [];
    #listeners = new Set();

    constructor(session) {
        session.on((event) => {
            this.events.push(event);
            for (const listener of this.#listeners) listener();
        });
    }

    of(type) {
        return this.events.filter((event) => event.type === type);
    }

    get types() {
        return this.events.map((event) => event.type);
    }

    /** Waits for the first event of a type. */
    first(type, where = () => true) {
        return new Promise((resolve, reject) => {
            const listener = () => {
                const found = this.of(type).find(where);
                if (!found) return;
                clearTimeout(limit);
                this.#listeners.delete(listener);
                resolve(found);
            };
            const limit = setTimeout(
                () => reject(new Error(`timed out waiting for ${type}; saw ${this.types.join(", ")}`)),
                TIMEOUT,
            );
            this.#listeners.add(listener);
            listener();
        });
    }
}

/** Sends a prompt, waits for the end of its turn, and returns the assistant's last message. */
export async function ask(session, prompt, options = {}) {
    const reply = await session.sendAndWait({ prompt, ...options }, TIMEOUT);
    return reply?.data.content;
}

/** Returns the directive that makes the model call a tool. */
export const call = (name, args = {}) => `[[tool:${name} ${JSON.stringify(args)}]]`;

export const toolResults = (request) =>
    request.messages.filter((message) => message.role === "tool").map((message) => message.content);

export const toolNames = (request) => (request.tools ?? []).map((tool) => tool.function.name);

export const systemMessage = (request) => request.messages.find((message) => message.role === "system").content;

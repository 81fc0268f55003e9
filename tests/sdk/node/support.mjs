// What the tests share: the programs they start, and ways to wait for events instead of sleeping.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, mkdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

export const REPOSITORY = join(dirname(fileURLToPath(import.meta.url)), "../../..");

const PATIENCE = 15_000;

export const program = (name) => join(process.env.BATON_BIN_DIR ?? join(REPOSITORY, "target/debug"), name);

async function started(name, args, options) {
    const child = spawn(program(name), args, { stdio: ["ignore", "pipe", "inherit"], ...options });
    const [line] = await once(createInterface({ input: child.stdout }), "line");
    return { child, line };
}

/** A scripted model in a process of its own. What it says is written in the prompts: `[[text:hello]]`. */
export class Model {
    static async start() {
        const model = new Model();
        const { child, line } = await started("baton-scripted-model", []);
        Object.assign(model, { child, url: `http://${line.split(" ")[1]}` });
        return model;
    }

    release(hold) {
        return fetch(`${this.url}/_release/${hold}`, { method: "POST" });
    }

    /** The bodies of all chat requests so far. */
    async requests() {
        const all = await (await fetch(`${this.url}/_requests`)).json();
        return all.filter((request) => request.path.endsWith("/chat/completions")).map((request) => request.body);
    }
}

/** Everything that one test has to itself: a model, a home, a work directory, clients and servers. */
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
        return this.#entered(this.sdk.stdio(program("baton"), this.env, this.work));
    }

    async tcpClient() {
        return this.#entered(this.sdk.tcp(program("baton"), this.env, this.work));
    }

    async clientAt(port, token) {
        return this.#entered(this.sdk.at(port, token));
    }

    async #entered(client) {
        this.clients.push(client);
        await client.start();
        return client;
    }

    async server(token) {
        const env = token ? { ...this.env, COPILOT_CONNECTION_TOKEN: token } : this.env;
        const { child, line } = await started("baton", ["--headless", "--log-level", "info"], { env, cwd: this.work });
        this.servers.push(child);
        return { port: Number(line.split(" ").at(-1)), kill: () => end(child, "SIGKILL") };
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

async function end(child, signal) {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, "exit");
    child.kill(signal);
    await exited;
}

/** Everything that a session tells one client from now on. */
export class Watch {
    events = [];
    #waiting = new Set();

    constructor(session) {
        session.on((event) => {
            this.events.push(event);
            for (const look of this.#waiting) look();
        });
    }

    of(type) {
        return this.events.filter((event) => event.type === type);
    }

    get types() {
        return this.events.map((event) => event.type);
    }

    /** The first event of a type, as soon as it is there. */
    first(type, where = () => true) {
        return new Promise((resolve, reject) => {
            const look = () => {
                const found = this.of(type).find(where);
                if (!found) return;
                clearTimeout(limit);
                this.#waiting.delete(look);
                resolve(found);
            };
            const limit = setTimeout(
                () => reject(new Error(`waited in vain for ${type}; saw ${this.types.join(", ")}`)),
                PATIENCE,
            );
            this.#waiting.add(look);
            look();
        });
    }
}

/** Sends a prompt, waits for the end of its turn, and returns what the assistant said last. */
export async function ask(session, prompt, options = {}) {
    const reply = await session.sendAndWait({ prompt, ...options }, PATIENCE);
    return reply?.data.content;
}

/** The directive that makes the model call a tool. */
export const call = (name, args = {}) => `[[tool:${name} ${JSON.stringify(args)}]]`;

export const toolResults = (request) =>
    request.messages.filter((message) => message.role === "tool").map((message) => message.content);

export const toolNames = (request) => (request.tools ?? []).map((tool) => tool.function.name);

export const systemMessage = (request) => request.messages.find((message) => message.role === "system").content;

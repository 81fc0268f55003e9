// Plugins that clients name for all sessions, and extensions that plugins bring, with the published Node SDK.

import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";

import { check, GREETER, options } from "./extending.mjs";
import { ask, call, toolResults } from "./support.mjs";

/** Writes a plugin with every part. Returns its directory. */
async function plugin(world, name) {
    const root = join(world.root, "plugins", name);
    const files = {
        "plugin.json": JSON.stringify({ name, version: "1.0.0" }),
        "skills/advice/SKILL.md": `---\nname: advice-${name}\ndescription: Advice of ${name}.\n---\nBe kind.\n`,
        "agents/critic.agent.md": "---\nname: critic\ndescription: Criticises.\n---\nYou criticise.\n",
        "hooks.json": JSON.stringify({ version: 1, hooks: { sessionStart: [{ type: "command", bash: "touch started" }] } }),
        ".mcp.json": JSON.stringify({ mcpServers: { [`none-${name}`]: { command: "/does/not/exist" } } }),
        "extensions/helper/extension.mjs": GREETER,
    };
    for (const [file, text] of Object.entries(files)) {
        await mkdir(dirname(join(root, file)), { recursive: true });
        await writeFile(join(root, file), text);
    }
    return root;
}

const extensions = async (session) => (await session.rpc.extensions.list()).extensions;

check("built-in plugins bring all of their parts to every session", async (world) => {
    const client = await world.client();
    const root = await plugin(world, "kit");
    await assert.rejects(() => client.rpc.plugins.builtin.set({ paths: ["relative"] }), /absolute/);
    await client.rpc.plugins.builtin.set({ paths: [root] });
    const session = await world.create(client, options());
    await ask(session, `Greet ${call("greet", { name: "Ada" })} [[text:done]]`);
    const requests = await world.model.requests();
    assert.deepEqual(toolResults(requests.at(-1)), ["Hello, Ada!"]);
    assert.match(JSON.stringify(requests[0]), /advice-kit/);
    const [extension] = await extensions(session);
    assert.deepEqual([extension.id, extension.source, extension.status], ["plugin:kit:helper", "plugin", "running"]);
    assert.deepEqual((await session.rpc.skills.list()).skills.map(({ name }) => name), ["advice-kit"]);
    assert.ok((await session.rpc.agent.list()).agents.some(({ name }) => name === "kit:critic"));
    const [server] = (await session.rpc.mcp.list()).servers;
    assert.deepEqual([server.name, server.status, server.source], ["none-kit", "failed", "plugin"]);
    await assert.rejects(() => client.rpc.plugins.builtin.set({ paths: [] }), /while sessions are active/);
});

check("additional plugins are replaced, and switched off ones do not count", async (world) => {
    const client = await world.client();
    const paths = { one: await plugin(world, "one"), two: await plugin(world, "two") };
    const entry = (name, enabled) =>
        ({ name, marketplace: "", installed_at: "2026-01-01T00:00:00Z", enabled, cache_path: paths[name] });
    const skills = async () => {
        const session = await world.create(client);
        return (await session.rpc.skills.list()).skills.map(({ name }) => name);
    };
    await client.rpc.sessions.setAdditionalPlugins({ plugins: [entry("one", true), entry("two", false)] });
    assert.deepEqual(await skills(), ["advice-one"]);
    await client.rpc.sessions.setAdditionalPlugins({ plugins: [entry("two", true)] });
    assert.deepEqual(await skills(), ["advice-two"]);
    await client.rpc.sessions.setAdditionalPlugins({ plugins: [] });
    assert.deepEqual(await skills(), []);
});

check("extension of an installed plugin starts after consent to its code", async (world) => {
    const client = await world.client();
    await client.rpc.plugins.install({ source: await plugin(world, "kit") });
    const questions = [];
    const create = (action) => world.create(client, options({
        enableConfigDiscovery: true,
        onElicitationRequest: ({ message }) => {
            questions.push(message);
            return { action: "accept", content: { action } };
        },
    }));
    const denied = await create("reject");
    assert.equal((await extensions(denied))[0].status, "failed");
    const approved = await create("approve");
    assert.equal((await extensions(approved))[0].status, "running");
    assert.equal(questions.length, 2);
    assert.match(questions[0], /The plugin "kit" has the extension plugin:kit:helper/);
    const { extensions: [found] } = await client.rpc.extensions.discover();
    assert.deepEqual([found.id, found.plugin], ["plugin:kit:helper", "kit"]);
    await create("reject");
    assert.equal(questions.length, 2, "this code is approved");
});

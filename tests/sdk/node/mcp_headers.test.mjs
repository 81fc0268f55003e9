// Headers of an MCP server that an application supplies and renews, with the published Node SDK.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { test } from "node:test";

import { SDKS } from "./sdks.mjs";
import { ask, call, toolResults, Watch, World } from "./support.mjs";

const TOOLS = [{ name: "echo", description: "Echoes.", inputSchema: { type: "object", properties: {} } }];

/** Answers a message of the protocol; none for notifications. */
function answer({ method, params }) {
    const results = {
        initialize: {
            protocolVersion: params?.protocolVersion,
            capabilities: { tools: {} },
            serverInfo: { name: "keyed", version: "1" },
        },
        "tools/list": { tools: TOOLS },
        "tools/call": { content: [{ type: "text", text: "echoed" }] },
    };
    return results[method];
}

/** Starts an MCP server that wants its current key in a header, and counts the calls of tools. */
async function keyedServer() {
    const state = { key: "first", calls: 0 };
    const server = createServer(async (request, response) => {
        let body = "";
        for await (const chunk of request) body += chunk;
        if (request.method !== "POST") return response.writeHead(405).end();
        if (request.headers["x-key"] !== state.key) return response.writeHead(401).end("wrong key");
        const message = JSON.parse(body);
        if (message.id === undefined) return response.writeHead(202).end();
        state.calls += message.method === "tools/call" ? 1 : 0;
        const reply = { jsonrpc: "2.0", id: message.id, result: answer(message) ?? {} };
        response.writeHead(200, { "Content-Type": "application/json" }).end(JSON.stringify(reply));
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return Object.assign(state, { server, url: `http://127.0.0.1:${server.address().port}/mcp?sig=hidden` });
}

test("application supplies headers, and others when they are rejected", { timeout: 60_000 }, async () => {
    const world = await World.open(SDKS.at(-1));
    const keyed = await keyedServer();
    try {
        const session = await world.create(await world.client(), {
            mcpServers: {
                keyed: {
                    type: "http",
                    url: keyed.url,
                    headers: { "X-Key": "configured" },
                    headersRefreshTtlMs: 3_600_000,
                    tools: ["*"],
                },
            },
        });
        const asked = [];
        session.on((event) => {
            if (event.type !== "mcp.headers_refresh_required") return;
            asked.push(event.data);
            const result = { kind: "headers", headers: { "x-key": keyed.key } };
            session.rpc.mcp.headers.handlePendingHeadersRefreshRequest({ requestId: event.data.requestId, result });
        });
        const watch = new Watch(session);
        await session.rpc.eventLog.registerInterest({ eventType: "mcp.headers_refresh_required" });
        const prompt = `Echo ${call("keyed-echo")} [[text:done]]`;
        assert.equal(await ask(session, prompt), "done");
        assert.deepEqual(toolResults((await world.model.requests()).at(-1)), ["echoed"]);
        assert.equal(asked.length, 1);
        assert.equal(asked[0].reason, "startup");
        assert.ok(!asked[0].serverUrl.includes("hidden"), asked[0].serverUrl);

        keyed.key = "second-key-of-the-server";
        assert.equal(await ask(session, prompt), "done");
        assert.deepEqual(asked.map(({ reason }) => reason), ["startup", "auth-failed"]);
        assert.equal(keyed.calls, 2, "the rejected call ran once");
        assert.ok(!JSON.stringify(watch.events).includes("second-key"), "headers are in no event");
        const unknown = { requestId: "unknown", result: { kind: "none" } };
        assert.deepEqual(await session.rpc.mcp.headers.handlePendingHeadersRefreshRequest(unknown), { success: false });
    } finally {
        await world.close();
        keyed.server.closeAllConnections();
        keyed.server.close();
    }
});

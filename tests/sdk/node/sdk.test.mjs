// The core behaviours, once for each published version of the Node SDK.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";

import { SDKS } from "./sdks.mjs";
import { ask, call, systemMessage, toolNames, toolResults, Watch, World } from "./support.mjs";

for (const sdk of SDKS) {
    /** A test with a world of its own. */
    const check = (name, body, options = {}) =>
        test(name, { timeout: 30_000, ...options }, async () => {
            const world = await World.open(sdk);
            try {
                await body(world);
            } finally {
                await world.close();
            }
        });
    const lookup = (handler) =>
        sdk.defineTool("lookup", {
            description: "Looks something up",
            parameters: { type: "object", properties: { value: { type: "string" } } },
            handler,
        });

    describe(`@github/copilot-sdk ${sdk.name}`, { concurrency: 2 }, () => {
        check("a session is created and disconnected", async (world) => {
            const session = await world.create(await world.client(), { model: "claude-sonnet-4.5" });
            const [first] = await sdk.history(session);
            assert.equal(first.type, "session.start");
            assert.equal(first.data.sessionId, session.sessionId);
            assert.equal(first.data.selectedModel, "claude-sonnet-4.5");
            await session.disconnect();
            await assert.rejects(() => sdk.history(session), /Session not found/);
        });

        check("a client stops without complaint", async (world) => {
            const client = await world.client();
            await ask(await world.create(client), "[[text:hello]]");
            assert.deepEqual(await client.stop(), []);
        });

        check("a conversation has a memory, also in another process", async (world) => {
            const session = await world.create(await world.client());
            assert.equal(await ask(session, "What is 1+1? [[text:It is 2]]"), "It is 2");
            const again = await world.resume(await world.client(), session.sessionId);
            assert.equal(await ask(again, "And twice that? [[text:That is 4]]"), "That is 4");
            const roles = (await world.model.requests())[1].messages.map((message) => message.role);
            assert.deepEqual(roles, ["system", "user", "assistant", "user"]);
        });

        check("sessions are listed, looked up and deleted", async (world) => {
            const client = await world.client();
            const session = await world.create(client);
            await ask(session, "Hello [[text:hello]]");
            assert.deepEqual((await client.listSessions()).map((entry) => entry.sessionId), [session.sessionId]);
            assert.equal(await client.getLastSessionId(), session.sessionId);
            await client.deleteSession(session.sessionId);
            assert.deepEqual(await client.listSessions(), []);
            await assert.rejects(() => world.resume(client, session.sessionId), /Session not found/);
        });

        check("the model is sent what the client configured", async (world) => {
            const session = await world.create(await world.client(), {
                systemMessage: { mode: "replace", content: "You are Testy McTestface." },
                availableTools: ["view", "edit"],
            });
            await ask(session, "[[text:hello]]");
            const [request] = await world.model.requests();
            assert.equal(systemMessage(request), "You are Testy McTestface.");
            assert.deepEqual(toolNames(request).sort(), ["edit", "view"]);
        });

        check("a tool of the client is called", async (world) => {
            const session = await world.create(await world.client(), {
                tools: [lookup(({ value }) => `found ${value}`)],
            });
            assert.equal(await ask(session, `${call("lookup", { value: "tea" })}[[text:Done]]`), "Done");
            assert.deepEqual(toolResults((await world.model.requests())[1]), ["found tea"]);
        });

        check("the error of a tool does not leak", async (world) => {
            const fails = lookup(() => {
                throw new Error("password=hunter2");
            });
            const session = await world.create(await world.client(), { tools: [fails] });
            assert.equal(await ask(session, `${call("lookup")}[[text:I do not know]]`), "I do not know");
            assert.ok(!JSON.stringify(await world.model.requests()).includes("hunter2"));
        });

        check("what is approved happens", async (world) => {
            const asked = [];
            const session = await world.create(await world.client(), {
                onPermissionRequest: (request) => asked.push(request.kind) && { kind: "approve-once" },
            });
            const path = join(world.work, "hello.txt");
            await ask(session, `${call("create", { path, file_text: "hello" })}[[text:Done]]`);
            assert.equal(await readFile(path, "utf8"), "hello");
            assert.deepEqual(asked, ["write"]);
        });

        check("what is rejected does not happen", async (world) => {
            const session = await world.create(await world.client(), { onPermissionRequest: () => ({ kind: "reject" }) });
            const seen = new Watch(session);
            const path = join(world.work, "hello.txt");
            await session.send({ prompt: `${call("create", { path, file_text: "hello" })}[[text:regardless]]` });
            await seen.first("session.idle");
            assert.ok(!existsSync(path));
            assert.equal(seen.of("permission.completed")[0].data.result.kind, "denied-interactively-by-user");
            assert.equal((await world.model.requests()).length, 1);
        });

        check("the user is asked", async (world) => {
            const session = await world.create(await world.client(), {
                onUserInputRequest: ({ choices }) => ({ answer: choices[1], wasFreeform: false }),
            });
            await ask(session, `${call("ask_user", { question: "Which?", choices: ["Tea", "Coffee"] })}[[text:Done]]`);
            assert.deepEqual(toolResults((await world.model.requests())[1]), ["User selected: Coffee"]);
        });

        check("the pieces of a streamed answer make the message", async (world) => {
            const session = await world.create(await world.client(), { streaming: true });
            const seen = new Watch(session);
            await session.send({ prompt: "[[text:one two three]]" });
            const message = await seen.first("assistant.message");
            const pieces = seen.of("assistant.message_delta");
            assert.ok(pieces.length > 1);
            assert.equal(pieces.map((piece) => piece.data.deltaContent).join(""), message.data.content);
            assert.deepEqual(new Set(pieces.map((piece) => piece.data.messageId)), new Set([message.data.messageId]));
        });

        check("a command is aborted and the session goes on", async (world) => {
            const session = await world.create(await world.client());
            const seen = new Watch(session);
            await session.send({ prompt: call("bash", { command: "sleep 100", description: "sleep" }) });
            await seen.first("tool.execution_start");
            await session.abort();
            await seen.first("session.idle");
            assert.equal(await ask(session, "What is 2+2? [[text:It is 4]]"), "It is 4");
            assert.equal((await sdk.history(session)).filter((event) => event.type === "abort").length, 1);
        });

        check("two clients see the same turn", async (world) => {
            const { port } = await world.server();
            const [one, two] = [await world.clientAt(port), await world.clientAt(port)];
            const mine = await world.create(one, { tools: [lookup(() => "found")] });
            const views = [new Watch(mine), new Watch(await world.resume(two, mine.sessionId))];
            await mine.send({ prompt: `${call("lookup")}[[text:Done]]` });
            const turns = [];
            for (const seen of views) {
                await seen.first("session.idle");
                const ids = seen.events.map((event) => event.id);
                turns.push(ids.slice(seen.types.indexOf("user.message"), seen.types.indexOf("session.idle") + 1));
            }
            assert.ok(turns[0].length > 5);
            assert.deepEqual(turns[0], turns[1]);
        });

        check("nothing that was acknowledged is lost when the server is killed", async (world) => {
            const server = await world.server();
            const session = await world.create(await world.clientAt(server.port));
            await ask(session, "before [[text:hello]]");
            const before = (await sdk.history(session)).map((event) => event.id);
            await session.send({ prompt: "remember this [[hold:for ever]]" });
            await server.kill();
            const again = await world.resume(await world.clientAt((await world.server()).port), session.sessionId);
            assert.equal(await ask(again, "after [[text:here]]"), "here");
            const after = await sdk.history(again);
            assert.deepEqual(after.slice(0, before.length).map((event) => event.id), before);
            const prompts = after.filter((event) => event.type === "user.message").map((event) => event.data.content);
            assert.deepEqual(prompts.map((prompt) => prompt.split(" ")[0]), ["before", "remember", "after"]);
        });

        check("who leaves takes its tools along", async (world) => {
            const { port } = await world.server();
            const [one, two] = [await world.clientAt(port), await world.clientAt(port)];
            const mine = await world.create(one);
            await world.resume(two, mine.sessionId, { tools: [lookup(() => "found")] });
            await ask(mine, `${call("lookup")}[[text:Done]]`);
            const seen = new Watch(mine); // Since the end of a turn, so that the news of tools that came are history.
            await two.forceStop();
            await seen.first("session.tools_updated");
            await ask(mine, `${call("lookup")}[[text:Done]]`);
            const last = (await world.model.requests()).at(-1);
            assert.ok(!toolNames(last).includes("lookup"));
            const [found, gone] = toolResults(last);
            assert.equal(found, "found");
            assert.match(gone, /does not exist/);
        });

        check("a client starts a server on a port", async (world) => {
            const session = await world.create(await world.tcpClient());
            assert.equal(await ask(session, "[[text:hello]]"), "hello");
        });

        for (const end of ["the client leaves", "the server is killed"]) {
            check(
                `an open tool call is answered by the next client when ${end}`,
                async (world) => {
                    const token = "a token that both sides know";
                    let server = await world.server(token);
                    const first = await world.clientAt(server.port, token);
                    const session = await world.create(first, { tools: [lookup(() => new Promise(() => {}))] });
                    const before = new Watch(session);
                    await session.send({ prompt: `${call("lookup")}[[text:Done]]` });
                    const { requestId } = (await before.first("external_tool.requested")).data;
                    if (end === "the client leaves") {
                        await first.forceStop();
                    } else {
                        await server.kill();
                        server = await world.server(token);
                    }
                    const next = await world.clientAt(server.port, token);
                    const again = await world.resume(next, session.sessionId, { continuePendingWork: true });
                    const seen = new Watch(again);
                    const late = { requestId, result: "LATE BUT THERE" };
                    assert.ok((await again.rpc.tools.handlePendingToolCall(late)).success);
                    await seen.first("session.idle");
                    assert.deepEqual(toolResults((await world.model.requests())[1]), ["LATE BUT THERE"]);
                },
                { skip: !sdk.continuesPendingWork && "this SDK cannot ask for it" },
            );
        }

        check(
            "without the right token nobody comes in",
            async (world) => {
                const { port } = await world.server("a token");
                for (const token of ["wrong", undefined]) {
                    await assert.rejects(() => world.clientAt(port, token), /AUTHENTICATION_FAILED/);
                }
            },
            { skip: !sdk.continuesPendingWork && "this SDK sends no token" },
        );
    });
}

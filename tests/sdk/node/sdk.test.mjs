// The core behaviour, with each tested version of the Node SDK.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";

import { SDKS } from "./sdks.mjs";
import { ask, call, systemMessage, toolNames, toolResults, Watch, World } from "./support.mjs";

for (const sdk of SDKS) {
    /** Declares a test with a new world. */
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
        check("session is created and disconnected", async (world) => {
            const session = await world.create(await world.client(), { model: "claude-sonnet-4.5" });
            const [first] = await sdk.history(session);
            assert.equal(first.type, "session.start");
            assert.equal(first.data.sessionId, session.sessionId);
            assert.equal(first.data.selectedModel, "claude-sonnet-4.5");
            await session.disconnect();
            await assert.rejects(() => sdk.history(session), /Session not found/);
        });

        check("client stops without errors", async (world) => {
            const client = await world.client();
            await ask(await world.create(client), "[[text:hello]]");
            assert.deepEqual(await client.stop(), []);
        });

        check("new process resumes a session with its conversation", async (world) => {
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

        check("settings of the client reach the model", async (world) => {
            const session = await world.create(await world.client(), {
                systemMessage: { mode: "replace", content: "You are Testy McTestface." },
                availableTools: ["view", "edit"],
            });
            await ask(session, "[[text:hello]]");
            const [request] = await world.model.requests();
            assert.equal(systemMessage(request), "You are Testy McTestface.");
            assert.deepEqual(toolNames(request).sort(), ["edit", "view"]);
        });

        check("client tool is called", async (world) => {
            const session = await world.create(await world.client(), {
                tools: [lookup(({ value }) => `found ${value}`)],
            });
            assert.equal(await ask(session, `${call("lookup", { value: "tea" })}[[text:Done]]`), "Done");
            assert.deepEqual(toolResults((await world.model.requests())[1]), ["found tea"]);
        });

        check("exception of a client tool is not sent to the model", async (world) => {
            const fails = lookup(() => {
                throw new Error("password=hunter2");
            });
            const session = await world.create(await world.client(), { tools: [fails] });
            assert.equal(await ask(session, `${call("lookup")}[[text:I do not know]]`), "I do not know");
            assert.ok(!JSON.stringify(await world.model.requests()).includes("hunter2"));
        });

        check("approved action is executed", async (world) => {
            const asked = [];
            const session = await world.create(await world.client(), {
                onPermissionRequest: (request) => asked.push(request.kind) && { kind: "approve-once" },
            });
            const path = join(world.work, "hello.txt");
            await ask(session, `${call("create", { path, file_text: "hello" })}[[text:Done]]`);
            assert.equal(await readFile(path, "utf8"), "hello");
            assert.deepEqual(asked, ["write"]);
        });

        check("rejected action is not executed", async (world) => {
            const session = await world.create(await world.client(), { onPermissionRequest: () => ({ kind: "reject" }) });
            const seen = new Watch(session);
            const path = join(world.work, "hello.txt");
            await session.send({ prompt: `${call("create", { path, file_text: "hello" })}[[text:not said]]` });
            await seen.first("session.idle");
            assert.ok(!existsSync(path));
            assert.equal(seen.of("permission.completed")[0].data.result.kind, "denied-interactively-by-user");
            assert.equal((await world.model.requests()).length, 1);
        });

        check("choice of the user is returned", async (world) => {
            const session = await world.create(await world.client(), {
                onUserInputRequest: ({ choices }) => ({ answer: choices[1], wasFreeform: false }),
            });
            await ask(session, `${call("ask_user", { question: "Which?", choices: ["Tea", "Coffee"] })}[[text:Done]]`);
            assert.deepEqual(toolResults((await world.model.requests())[1]), ["User selected: Coffee"]);
        });

        check("pieces of a streamed answer add up to the message", async (world) => {
            const session = await world.create(await world.client(), { streaming: true });
            const seen = new Watch(session);
            await session.send({ prompt: "[[text:one two three]]" });
            const message = await seen.first("assistant.message");
            const pieces = seen.of("assistant.message_delta");
            assert.ok(pieces.length > 1);
            assert.equal(pieces.map((piece) => piece.data.deltaContent).join(""), message.data.content);
            assert.deepEqual(new Set(pieces.map((piece) => piece.data.messageId)), new Set([message.data.messageId]));
        });

        check("abort ends a command and the session continues", async (world) => {
            const session = await world.create(await world.client());
            const seen = new Watch(session);
            await session.send({ prompt: call("bash", { command: "sleep 100", description: "sleep" }) });
            await seen.first("tool.execution_start");
            await session.abort();
            await seen.first("session.idle");
            assert.equal(await ask(session, "What is 2+2? [[text:It is 4]]"), "It is 4");
            assert.equal((await sdk.history(session)).filter((event) => event.type === "abort").length, 1);
        });

        check("both clients see the same order of events", async (world) => {
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

        check("history and acknowledged prompts survive a killed server", async (world) => {
            const server = await world.server();
            const session = await world.create(await world.clientAt(server.port));
            await ask(session, "before [[text:hello]]");
            const before = (await sdk.history(session)).map((event) => event.id);
            await session.send({ prompt: "remember this [[hold:forever]]" });
            await server.kill();
            const again = await world.resume(await world.clientAt((await world.server()).port), session.sessionId);
            assert.equal(await ask(again, "after [[text:here]]"), "here");
            const after = await sdk.history(again);
            assert.deepEqual(after.slice(0, before.length).map((event) => event.id), before);
            const prompts = after.filter((event) => event.type === "user.message").map((event) => event.data.content);
            assert.deepEqual(prompts.map((prompt) => prompt.split(" ")[0]), ["before", "remember", "after"]);
        });

        check("tools are removed when their client leaves", async (world) => {
            const { port } = await world.server();
            const [one, two] = [await world.clientAt(port), await world.clientAt(port)];
            const mine = await world.create(one);
            await world.resume(two, mine.sessionId, { tools: [lookup(() => "found")] });
            await ask(mine, `${call("lookup")}[[text:Done]]`);
            const seen = new Watch(mine); // After the turn, so that the notification about the added tools is not recorded.
            await two.forceStop();
            await seen.first("session.tools_updated");
            await ask(mine, `${call("lookup")}[[text:Done]]`);
            const last = (await world.model.requests()).at(-1);
            assert.ok(!toolNames(last).includes("lookup"));
            const [found, removed] = toolResults(last);
            assert.equal(found, "found");
            assert.match(removed, /does not exist/);
        });

        check("client starts a server on a port", async (world) => {
            const session = await world.create(await world.tcpClient());
            assert.equal(await ask(session, "[[text:hello]]"), "hello");
        });

        for (const end of ["the client left", "the server was killed"]) {
            check(
                `next client answers an open tool call after ${end}`,
                async (world) => {
                    const token = "shared token";
                    let server = await world.server(token);
                    const first = await world.clientAt(server.port, token);
                    const session = await world.create(first, { tools: [lookup(() => new Promise(() => {}))] });
                    const before = new Watch(session);
                    await session.send({ prompt: `${call("lookup")}[[text:Done]]` });
                    const { requestId } = (await before.first("external_tool.requested")).data;
                    if (end === "the client left") {
                        await first.forceStop();
                    } else {
                        await server.kill();
                        server = await world.server(token);
                    }
                    const next = await world.clientAt(server.port, token);
                    const again = await world.resume(next, session.sessionId, { continuePendingWork: true });
                    const seen = new Watch(again);
                    const answer = { requestId, result: "FROM THE NEXT CLIENT" };
                    assert.ok((await again.rpc.tools.handlePendingToolCall(answer)).success);
                    await seen.first("session.idle");
                    assert.deepEqual(toolResults((await world.model.requests())[1]), ["FROM THE NEXT CLIENT"]);
                },
                { skip: !sdk.continuesPendingWork && "not supported by this SDK" },
            );
        }

        check(
            "wrong or missing token is refused",
            async (world) => {
                const { port } = await world.server("a token");
                for (const token of ["wrong", undefined]) {
                    await assert.rejects(() => world.clientAt(port, token), /AUTHENTICATION_FAILED/);
                }
            },
            { skip: !sdk.continuesPendingWork && "not supported by this SDK" },
        );
    });
}

// One interface to both generations of the SDK, so that every test is written once.

import { join } from "node:path";
import { pathToFileURL } from "node:url";

import { REPOSITORY } from "./support.mjs";

export const INSTALLED = process.env.BATON_NODE_SDKS ?? join(REPOSITORY, ".cache/node/node_modules");

const load = (name) => import(pathToFileURL(join(INSTALLED, name, "dist/index.js")).href);

const april = await load("sdk-of-april");
const newest = await load("sdk-newest");

/** @returns {{name: string, approveAll: Function, defineTool: Function, stdio: Function, at: Function, history: Function}[]} */
export const SDKS = [
    {
        name: "0.3.0",
        ...april,
        stdio: (path, env, cwd) => new april.CopilotClient({ cliPath: path, env, cwd }),
        tcp: (path, env, cwd) => new april.CopilotClient({ cliPath: path, env, cwd, useStdio: false }),
        at: (port) => new april.CopilotClient({ cliUrl: `localhost:${port}` }),
        history: (session) => session.getMessages(),
        continuesPendingWork: false,
    },
    {
        name: "1.0.14",
        ...newest,
        stdio: (path, env, cwd) =>
            new newest.CopilotClient({
                connection: newest.RuntimeConnection.forStdio({ path }),
                env,
                workingDirectory: cwd,
            }),
        tcp: (path, env, cwd) =>
            new newest.CopilotClient({
                connection: newest.RuntimeConnection.forTcp({ path }),
                env,
                workingDirectory: cwd,
            }),
        at: (port, connectionToken) =>
            new newest.CopilotClient({
                connection: newest.RuntimeConnection.forUri(`localhost:${port}`, { connectionToken }),
            }),
        history: (session) => session.getEvents(),
        continuesPendingWork: true,
    },
];

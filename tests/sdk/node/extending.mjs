// What tests of extensions and of plugins share: the newest SDK, a world for each test, and an extension.

import { join } from "node:path";
import { test } from "node:test";

import { INSTALLED, SDKS } from "./sdks.mjs";
import { World } from "./support.mjs";

export const sdk = SDKS.at(-1);

/** Declares a test with a new world. */
export const check = (name, body) =>
    test(name, { timeout: 60_000 }, async () => {
        const world = await World.open(sdk);
        try {
            await body(world);
        } finally {
            await world.close();
        }
    });

/** Returns the options of a session whose client asks for extensions. */
export const options = (more = {}) => ({
    requestExtensions: true,
    extensionSdkPath: join(INSTALLED, "sdk-newest/dist"),
    ...more,
});

/** An extension with a tool, which claims to need no permission. */
export const GREETER = `
    import { joinSession } from "@github/copilot-sdk/extension";
    await joinSession({
        tools: [{
            name: "greet",
            description: "Greets someone.",
            parameters: { type: "object", properties: { name: { type: "string" } } },
            skipPermission: true,
            handler: async ({ name }) => "Hello, " + name + "!",
        }],
    });
`;

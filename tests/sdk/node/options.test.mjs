// Every option that the SDK can send with session.create and session.resume is listed, and so has a known effect.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { INSTALLED } from "./sdks.mjs";
import { REPOSITORY } from "./support.mjs";

const lines = readFileSync(join(REPOSITORY, "tests/sdk/session-options.txt"), "utf8").split("\n");
const listed = new Set(lines.filter((line) => line && !line.startsWith("#")));

for (const name of ["sdk-of-april", "sdk-newest"]) {
    test(`options of ${name} are listed`, () => {
        const source = readFileSync(join(INSTALLED, name, "dist/client.js"), "utf8");
        const calls = [...source.matchAll(/sendRequest\("session\.(?:create|resume)", \{(.*?)\n {6}\}\)/gs)];
        assert.equal(calls.length, 2, "the SDK builds its payload in another way: adapt this test");
        const fields = calls.flatMap(([, body]) => [...body.matchAll(/^ {8}(?:\.\.\..*\{ )?(\w+)(?::|,| \})/gm)]);
        const sent = new Set(fields.map(([, field]) => field));
        assert.ok(sent.has("model"));
        assert.deepEqual([...sent].filter((field) => !listed.has(field)), []);
    });
}

// What an approval shows, without a browser: its subject, from the detail of a request.

import assert from "node:assert/strict";
import { before, test } from "node:test";

let subject;

before(async () => {
  // The modules look for the browser when they are loaded.
  Object.assign(globalThis, {
    window: globalThis,
    document: { createElement: () => ({}), baseURI: "http://localhost/", addEventListener() {} },
    location: new URL("http://localhost/"),
  });
  ({ subject } = await import("../../crates/page/assets/request.js"));
});

const permission = (detail) => subject({ kind: "permission", requestId: "r", sessionId: "s", toolName: "tool", detail });

test("an MCP tool is shown with its name, whatever title its server chose", () => {
  const asked = { kind: "mcp", serverName: "files", toolName: "delete_all", toolTitle: "Read a page\u202e", args: { a: 1 } };
  const { heading } = permission(asked);
  assert.match(heading, /^files: delete_all \(“Read a page\\u\{202e\}”\): /);
  assert.match(permission({ ...asked, toolTitle: undefined }).heading, /^files: delete_all: /);
});

test("all of the new content of a file can be read, whatever the diff shows", () => {
  const { diff, whole } = permission({ kind: "write", fileName: "/w/a", diff: "+start …", newFileContents: "start\nend" });
  assert.equal(diff, "+start …");
  assert.equal(whole, "start\nend");
});

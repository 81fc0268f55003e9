// Makes the pictures of the documentation: `BATON_WRITE_IMAGES=1 scripts/test page`.

import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { DESKTOP, open, PHONE, Server, startBrowser, startModel } from "./harness.mjs";

const folder = join(import.meta.dirname, "../../docs/images");

test("the pictures of the documentation are made", async () => {
  const [browser, model] = await Promise.all([startBrowser(), startModel()]);
  const server = await new Server(model.url).start();
  try {
    const cwd = join(server.home, "shop");
    mkdirSync(cwd);
    writeFileSync(join(cwd, "upload.rs"), "fn retry() -> u32 {\n    3\n}\n");
    const say = (text) => `[[text:${text}]]`;
    const sessions = [
      ["release-notes", "Write the release notes", say("Done: `NOTES.md` lists 14 changes.")],
      ["dependencies", "Update the dependencies", say("Three crates have new versions; the tests pass with all of them.")],
      ["images", "Resize the product images", `[[tool:bash {"command":"mogrify -resize 1200x images/*.jpg"}]]`],
      ["upload", "Fix the flaky upload test", `[[text:The test fails when the second retry comes within the same millisecond. **Two changes** fix it:\n\n1. \`retry\` waits with jitter\n2. the test uses a paused clock\n\n]][[tool:view {"path":"upload.rs"}]][[tool:bash {"command":"cargo test --package upload -- --test-threads 1"}]]`],
    ];
    for (const [id, name, prompt] of sessions) {
      await server.session(id, null, { cwd });
      await server.api("POST", `sessions/${id}/prompts`, { text: prompt });
      await server.api("PATCH", `sessions/${id}`, { name });
    }
    const desktop = await open(browser, server, { size: DESKTOP });
    await desktop.goto(`${server.url}#/s/upload`);
    // The scripted model is told what to say by the prompt, which is not what a person would write.
    const tidy = (page) => page.evaluate(() => {
      for (const bubble of document.querySelectorAll(".bubble")) bubble.textContent = "The upload test fails on every tenth run. Find out why, and fix it.";
      for (const path of document.querySelectorAll(".path")) path.textContent = "~/shop";
    });
    const view = desktop.getByRole("article").filter({ hasText: "view:" }).getByRole("button", { name: "Allow once" });
    if (await view.count()) await view.click();
    await desktop.getByRole("heading", { name: /cargo test --package upload/ }).waitFor();
    await desktop.getByRole("heading", { name: /mogrify/ }).waitFor();
    await tidy(desktop);
    const phone = await open(browser, server, { size: { ...PHONE, height: 700 } });
    await phone.getByRole("heading", { name: /cargo test --package upload/ }).waitFor();
    await tidy(phone);
    if (process.env.BATON_WRITE_IMAGES) {
      mkdirSync(folder, { recursive: true });
      await desktop.screenshot({ path: join(folder, "page-desktop.png"), animations: "disabled" });
      await phone.screenshot({ path: join(folder, "page-phone.png"), animations: "disabled" });
    }
    assert.deepEqual([...desktop.problems, ...phone.problems], []);
  } finally {
    await browser.close();
    await server.close();
    model.close();
  }
});

// Makes the pictures of the documentation, from a real run with the demo model: `BATON_WRITE_IMAGES=1 scripts/test page`.

import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { DESKTOP, open, PHONE, Server, startBrowser } from "./harness.mjs";

const folder = join(import.meta.dirname, "../../docs/images");

test("the pictures of the documentation are made", async () => {
  const browser = await startBrowser();
  const server = await new Server("demo").start();
  const cwd = mkdtempSync(join(tmpdir(), "shop-"));
  try {
    writeFileSync(join(cwd, "upload.rs"), "fn retries() -> u32 {\n    3\n}\n");
    const sessions = [
      ["notes", "Write the release notes", "create notes.md with 14 changes since March"],
      ["images", "Resize the product images", "run `mogrify -resize 1200x images/*.jpg`"],
      ["colour", "Choose a theme", "ask which colour should the shop have?"],
      ["upload", "Fix the flaky upload test", "show upload.rs"],
    ];
    for (const [id, name, prompt] of sessions) {
      await server.session(id, prompt, { cwd, questions: true });
      await server.api("PATCH", `sessions/${id}`, { name });
    }
    const desktop = await open(browser, server, { size: DESKTOP });
    const log = desktop.getByRole("log");
    const request = (page, heading) => page.getByRole("article").filter({ has: page.getByRole("heading", { name: heading }) });
    await request(desktop, /create: .*notes\.md/).getByRole("button", { name: "Allow once" }).click();
    await desktop.goto(`${server.url}#/s/upload`);
    await request(desktop, /view: .*upload\.rs/).getByRole("button", { name: "Allow once" }).click();
    await log.getByText("retries").first().waitFor({ state: "attached" });
    await desktop.getByRole("button", { name: "Cancel turn" }).waitFor({ state: "hidden" });
    await desktop.getByRole("textbox", { name: "Prompt" }).fill("run `cargo test --package upload -- --test-threads 1`");
    await desktop.getByRole("button", { name: "Send" }).click();
    await request(desktop, /cargo test --package upload/).waitFor();
    await request(desktop, /mogrify/).waitFor();
    const phone = await open(browser, server, { size: { ...PHONE, height: 700 } });
    await request(phone, /cargo test --package upload/).waitFor();
    if (process.env.BATON_WRITE_IMAGES) {
      mkdirSync(folder, { recursive: true });
      await desktop.screenshot({ path: join(folder, "page-desktop.png"), animations: "disabled" });
      await phone.screenshot({ path: join(folder, "page-phone.png"), animations: "disabled" });
    }
    assert.deepEqual([...desktop.problems, ...phone.problems], []);
  } finally {
    await browser.close();
    await server.close();
    rmSync(cwd, { recursive: true, force: true });
  }
});

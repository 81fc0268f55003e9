// Makes an extension import the SDK of its host, in place of one in its own directory.
import { existsSync } from "node:fs";
import * as modules from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const root = process.env.COPILOT_SDK_PATH;
if (root) {
    const base = existsSync(join(root, "extension.js")) ? root : join(root, "dist");
    const url = (file) => pathToFileURL(join(base, file)).href;
    const known = {
        "@github/copilot-sdk": url("index.js"),
        "@github/copilot-sdk/extension": url("extension.js"),
    };
    const resolve = (specifier, context, next) =>
        Object.hasOwn(known, specifier)
            ? { url: known[specifier], shortCircuit: true }
            : next(specifier, context);
    if (modules.registerHooks) {
        modules.registerHooks({ resolve });
    } else {
        const hooks = `let known; export const initialize = (data) => { known = data; };
            export const resolve = ${resolve};`;
        modules.register("data:text/javascript," + encodeURIComponent(hooks), { data: known });
    }
}

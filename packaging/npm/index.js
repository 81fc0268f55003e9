// The path of the program `baton`, for COPILOT_CLI_PATH or RuntimeConnection.forStdio({ path }).
import { createRequire } from "node:module";

function find() {
  const platform = `@baton-dev/baton-${process.platform}-${process.arch}`;
  try {
    return createRequire(import.meta.url).resolve(`${platform}/bin/baton`);
  } catch {
    throw new Error(`${platform} is not installed; reinstall @baton-dev/baton without --omit=optional, on Linux or macOS`);
  }
}

export const path = find();

#!/usr/bin/env node
// Runs the program with the arguments, standard streams and signals of this process.
import { spawn } from "node:child_process";
import { path } from "./index.js";

const child = spawn(path, process.argv.slice(2), { stdio: "inherit" });
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  // Ctrl-C reaches the program from the terminal; sent twice, it would stop a server without its grace period.
  const fromTerminal = signal === "SIGINT" && process.stdin.isTTY;
  process.on(signal, () => fromTerminal || child.kill(signal));
}
child.on("error", (error) => {
  console.error(`baton: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => {
  if (signal === null) process.exit(code);
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
});

// Written by Baton. Asks for permission before pi runs a tool that does more than read.
const READS = new Set(["read", "grep", "find", "ls"]);

export default function (pi) {
  pi.on("tool_call", async (event, ctx) => {
    if (READS.has(event.toolName)) return undefined;
    const wants = { call: event.toolCallId, tool: event.toolName, input: event.input };
    const answer = await ctx.ui.input("baton/may", JSON.stringify(wants));
    if (answer === "yes") return undefined;
    return { block: true, reason: answer || "No user is available to decide." };
  });
}

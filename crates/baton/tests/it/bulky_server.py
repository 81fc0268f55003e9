"""An MCP server that sends 15 MB of JSON in one place: WHERE (initialize, notification, result, sampling), SHAPE (deep, dense)."""

import json
import sys

WHERE, SHAPE = sys.argv[1:]
SIZE = 15_000_000

if SHAPE == "deep":
    # Each array takes two bytes as text, and three hundred as a tree.
    one = "[" * 90 + "]" * 90
    BULK = "[" + ",".join([one] * (SIZE // (len(one) + 1))) + "]"
else:
    # As many values as are accepted.
    BULK = "[" + "[]," * 45_000 + '"' + "x" * (SIZE - 135_000) + '"]'


def out(text):
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def message(**fields):
    out(json.dumps({"jsonrpc": "2.0", **fields}).replace('"BULK"', BULK))


for line in sys.stdin:
    request = json.loads(line)
    method, id = request.get("method"), request.get("id")
    if method == "initialize":
        result = {"protocolVersion": request["params"]["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "bulky", "version": "1"}}
        if WHERE == "initialize":
            result["instructions"] = "BULK"
        message(id=id, result=result)
    elif method == "notifications/initialized" and WHERE == "notification":
        for _ in range(3):
            message(method="notifications/message", params={"level": "info", "data": "BULK"})
    elif method == "tools/list":
        message(id=id, result={"tools": [{"name": "bulk", "inputSchema": {"type": "object"}}]})
    elif method == "tools/call" and WHERE == "sampling":
        message(id="s", method="sampling/createMessage", params={"messages": "BULK", "maxTokens": 5})
        call = id
    elif method == "tools/call":
        content = [{"type": "text", "text": "called"}]
        bulk = {"structuredContent": "BULK"} if WHERE == "result" else {}
        message(id=id, result={"content": content, **bulk})
    elif id == "s":
        message(id=call, result={"content": [{"type": "text", "text": "sampled"}]})

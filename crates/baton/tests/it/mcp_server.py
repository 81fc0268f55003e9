"""A small MCP server for tests. Standard library only.

Arguments: a file to which it appends a line when it starts, and a file with the description of its tool.
"""

import json
import os
import sys

with open(sys.argv[1], "a", encoding="utf-8") as marker:
    marker.write("started\n")
print("ready \x1b[31mred", file=sys.stderr, flush=True)


def description():
    try:
        with open(sys.argv[2], encoding="utf-8") as file:
            return file.read()
    except (IndexError, OSError):
        return "Returns its text"


def answer(method, params):
    if method == "initialize":
        return {"protocolVersion": params["protocolVersion"], "serverInfo": {"name": "test", "version": "1"},
                "capabilities": {"tools": {}, "resources": {}, "prompts": {}}}
    if method == "tools/list":
        schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
        return {"tools": [
            {"name": "echo", "description": description(), "inputSchema": schema},
            {"name": "look", "description": "Looks", "inputSchema": schema, "annotations": {"readOnlyHint": True}},
            {"name": "env", "description": "Returns a variable", "inputSchema": schema},
        ]}
    if method == "tools/call":
        text = params["arguments"].get("text", "")
        if params["name"] == "env":
            text = os.environ.get(text, "(unset)")
        return {"content": [{"type": "text", "text": "echo: " + text}]}
    if method == "resources/list":
        return {"resources": [{"uri": "test://one", "name": "one"}]}
    if method == "resources/read":
        if params["uri"] == "test://changed":
            print(json.dumps({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}), flush=True)
        return {"contents": [{"uri": params["uri"], "mimeType": "text/plain", "text": "content of " + params["uri"]}]}
    if method == "prompts/list":
        return {"prompts": [{"name": "greet", "arguments": [{"name": "who", "required": True}]}]}
    if method == "prompts/get":
        text = "Greet " + params["arguments"]["who"]
        return {"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}
    return None


for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    result = answer(request["method"], request.get("params") or {})
    reply = {"jsonrpc": "2.0", "id": request["id"]}
    if result is None:
        reply["error"] = {"code": -32601, "message": "Method not found"}
    else:
        reply["result"] = result
    print(json.dumps(reply), flush=True)

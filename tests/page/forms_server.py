"""An MCP server whose tools ask: a form, a page to open, an answer of the model. Returns what it was told."""

import json
import sys

FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Name", "description": "For the <i>booking</i>"},
        "guests": {"type": "integer", "title": "Guests", "minimum": 1, "maximum": 9, "default": 2},
        "table": {"type": "string", "title": "Table", "oneOf": [{"const": "w", "title": "At the window"}, {"const": "d", "title": "At the door"}]},
        "outside": {"type": "boolean", "title": "Outside"},
        "diets": {"type": "array", "title": "Diets", "items": {"type": "string", "enum": ["vegan", "kosher"], "enumNames": ["Vegan", "Kosher"]}},
        "note": {"type": "string", "title": "Note"},
    },
    "required": ["name"],
}
ASKS = {
    "form": ("elicitation/create", {"message": "Book a table", "requestedSchema": FORM}),
    "page": ("elicitation/create", {"mode": "url", "message": "Pay here", "url": "https://pay.example/order?id=1", "elicitationId": "e1"}),
    "sample": ("sampling/createMessage", {"messages": [{"role": "user", "content": {"type": "text", "text": "say hello"}}], "maxTokens": 50}),
}


def send(**message):
    """Writes a message."""
    print(json.dumps({"jsonrpc": "2.0"} | message), flush=True)


def main():
    """Answers until the end of the input."""
    calls = {}
    for line in sys.stdin:
        message = json.loads(line)
        method = message.get("method")
        if method == "initialize":
            send(id=message["id"], result={"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}},
                                           "serverInfo": {"name": "forms", "version": "1"}})
        elif method == "tools/list":
            tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ASKS]
            send(id=message["id"], result={"tools": tools})
        elif method == "tools/call":
            name = message["params"]["name"]
            question = f"q{message['id']}"
            calls[question] = message["id"]
            send(id=question, method=ASKS[name][0], params=ASKS[name][1])
        elif method is None and message.get("id") in calls:
            text = json.dumps(message.get("result") or message.get("error"))
            send(id=calls.pop(message["id"]), result={"content": [{"type": "text", "text": text}]})
        elif "id" in message and method:
            send(id=message["id"], result={})


if __name__ == "__main__":
    main()

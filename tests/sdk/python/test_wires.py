"""All wire APIs to model providers, end to end: from the SDK to a scripted provider."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import adapters
import pytest
from support import call, text_of, tool

#: Older SDKs send the same provider settings.
pytestmark = pytest.mark.skipif(not adapters.is_newest(), reason="same behaviour in all SDKs")

#: A PNG image of one pixel.
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@dataclass(frozen=True)
class Wire:
    """The settings of a provider, and the expected requests."""

    name: str
    provider: dict[str, Any]
    #: The expected path of requests, with the query.
    path: str
    #: The expected header with the key.
    credential: tuple[str, str]

    def __str__(self) -> str:
        return self.name

    def at(self, url: str) -> dict[str, Any]:
        return self.provider | {"base_url": url + self.provider.get("base_url", ""), "api_key": "sk-secret"}


OPENAI = {"type": "openai", "base_url": "/v1"}
AZURE = {"type": "azure"}
VERSIONED = AZURE | {"azure": {"api_version": "2025-04-01-preview"}}
RESPONSES = {"wire_api": "responses"}
BEARER, API_KEY, X_API_KEY = ("authorization", "Bearer sk-secret"), ("api-key", "sk-secret"), ("x-api-key", "sk-secret")

WIRES = [
    Wire("completions", OPENAI, "/v1/chat/completions", BEARER),
    Wire("responses", OPENAI | RESPONSES, "/v1/responses", BEARER),
    Wire("websockets", OPENAI | RESPONSES | {"transport": "websockets"}, "/v1/responses", BEARER),
    Wire("messages", {"type": "anthropic"}, "/v1/messages", X_API_KEY),
    Wire("azure-completions", AZURE, "/openai/v1/chat/completions", API_KEY),
    Wire("azure-responses", AZURE | RESPONSES, "/openai/v1/responses", API_KEY),
    Wire(
        "azure-deployment",
        VERSIONED,
        "/openai/deployments/the-model/chat/completions?api-version=2025-04-01-preview",
        API_KEY,
    ),
    Wire(
        "azure-versioned-responses",
        VERSIONED | RESPONSES,
        "/openai/responses?api-version=2025-04-01-preview",
        API_KEY,
    ),
]

every_wire = pytest.mark.parametrize("wire", WIRES, ids=str)
#: Without Azure, which has the APIs of OpenAI at other URLs.
every_api = pytest.mark.parametrize("wire", [wire for wire in WIRES if wire.provider["type"] != "azure"], ids=str)


async def with_provider(world, client, wire: Wire, **options: Any) -> Any:
    return await world.create(client, model="the-model", provider=wire.at(world.model.url), **options)


def results_in(body: dict[str, Any]) -> list[str]:
    """Returns the tool results of a request in any wire format."""
    found = []
    for message in body.get("messages") or body["input"]:
        if message.get("role") == "tool":
            found.append(text_of(message))
        elif message.get("type") == "function_call_output":
            found.append(message["output"])
        elif isinstance(message.get("content"), list):
            found += [text_of(part) for part in message["content"] if part["type"] == "tool_result"]
    return found


@every_wire
@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
async def test_turn_with_reasoning_tool_call_and_image(world, client, wire, streaming):
    received = []
    lamp = tool("lamp", lambda arguments: received.append(arguments) or "it is on")
    session = await with_provider(world, client, wire, tools=[lamp], streaming=streaming)
    seen = world.watch(session)
    prompt = "[[think:Where is it?]][[text:Let me see. ]]" + call("lamp", value="größer") + "[[text:There it is.]]"
    picture = {"type": "blob", "data": PIXEL, "mimeType": "image/png", "displayName": "pixel.png"}
    assert await world.ask(session, prompt, attachments=[picture]) == "There it is."

    # The client tool was called once, with the model's arguments.
    assert received == [{"value": "größer"}]
    first, second = seen.of("assistant.message")
    assert first["reasoningText"] == "Where is it?"
    assert first["content"] == "Let me see. "
    assert [(request["name"], request["arguments"]) for request in first["toolRequests"]] == [("lamp", received[0])]
    assert not second["toolRequests"]

    # The requests to the provider are complete.
    asked, answered = world.model.exchanges()
    assert {asked["path"], answered["path"]} == {wire.path}
    name, secret = wire.credential
    assert asked["headers"][name] == secret
    assert asked["body"]["model"] == "the-model"
    transport = wire.provider.get("transport", "http")
    assert asked["method"] == {"http": "POST", "websockets": "WS"}[transport]
    assert bool(asked["body"].get("stream")) == (streaming and transport == "http")
    assert PIXEL in str(asked["body"])
    assert results_in(answered["body"]) == ["it is on"]

    # Usage has the same form for all wire APIs.
    usage = seen.of("assistant.usage")[0]
    assert (usage["inputTokens"], usage["outputTokens"], usage["cacheReadTokens"]) == (100, 20, 40)
    assert usage["isByok"] and usage["model"] == "the-model"
    assert usage["transport"] == transport.rstrip("s")
    assert wire.path.split("?")[0].endswith(usage["apiEndpoint"].removeprefix("ws:"))

    # With streaming, the deltas add up to the message.
    deltas = [delta["deltaContent"] for delta in seen.of("assistant.message_delta")]
    assert "".join(deltas) == ("Let me see. There it is." if streaming else "")
    thoughts = [delta["deltaContent"] for delta in seen.of("assistant.reasoning_delta")]
    assert "".join(thoughts) == ("Where is it?" if streaming else "")


@every_wire
async def test_error_names_provider_reason_and_advice(world, client, wire):
    session = await with_provider(world, client, wire)
    seen = world.watch(session)
    expected = [
        (401, "authentication", "Check the API key"),
        (404, "query", "Check the base URL and the name of the model."),
        (429, "rate_limit", "Try again in 3600 s."),
    ]
    for times, (status, type, advice) in enumerate(expected, 1):
        await session.send(f"[[error:{status}:retry=3600]]")
        error = (await seen.some("session.error", times))[-1]
        assert (error["errorType"], error["statusCode"]) == (type, status)
        for part in [world.model.url.removeprefix("http://"), f"({status} ", f"scripted failure {status}", advice]:
            assert part in error["message"]
        assert "sk-secret" not in error["message"]
        await seen.idle(times)
        assert len(world.model.exchanges()) == times, "a permanent error must not be retried"
    assert await world.ask(session, "[[text:never mind]]") == "never mind"


@every_api
async def test_interrupted_answer_is_retried_as_a_new_message(world, client, wire):
    session = await with_provider(world, client, wire, streaming=True)
    seen = world.watch(session)
    assert await world.ask(session, "[[drop*1]][[text:whole]]") == "whole"
    deltas = seen.of("assistant.message_delta")
    assert [delta["deltaContent"] for delta in deltas] == ["half ", "an ", "whole"]
    assert deltas[0]["messageId"] != deltas[-1]["messageId"] == (await seen.first("assistant.message"))["messageId"]


@pytest.mark.parametrize("wire", [wire for wire in WIRES if wire.name in ("messages", "responses")], ids=str)
@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
async def test_message_has_citations(world, client, wire, streaming):
    session = await with_provider(world, client, wire, streaming=streaming, enable_citations=True)
    document = {"type": "blob", "data": "JVBERi0=", "mimeType": "application/pdf", "displayName": "source.pdf"}
    prompt = "[[text:They say 😀: ]][[cited:Grün.]][[text: So it is.]]"
    assert await world.ask(session, prompt, attachments=[document]) == "They say 😀: Grün. So it is."
    message = next(event for event in await world.history(session) if event.type == "assistant.message")
    (source,), (span,) = message["citations"]["sources"], message["citations"]["spans"]
    # In UTF-16 units: the emoji has two.
    assert (span["startIndex"], span["endIndex"]) == (13, 18)
    (reference,) = span["references"]
    assert reference["sourceId"] == source["id"] and source["title"] == "The source"
    if wire.name == "messages":
        assert source["provider"] == "anthropic" and reference["citedText"] == "Grün."
        assert reference["location"] == {"type": "char", "startIndex": 0, "endIndex": 5}
        sent = world.model.requests()[0]["messages"][-1]["content"]
        assert [part["citations"] for part in sent if part["type"] == "document"] == [{"enabled": True}]
    else:
        assert (source["provider"], source["url"]) == ("openai", "https://source.example")

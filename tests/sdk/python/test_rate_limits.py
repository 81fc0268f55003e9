"""Rate limits: a fallback model continues the turn if the client agrees."""

from __future__ import annotations

from typing import Any

import adapters
import pytest

pytestmark = pytest.mark.skipif(not adapters.is_newest(), reason="not supported by older SDKs")

#: Fails once, with a retry delay that is too long to wait.
LIMITED = "[[error:429*1:retry=3600]]"


def two_models(world) -> dict[str, Any]:
    """Returns settings with two providers, each with one model."""
    providers = [{"name": name, "type": "openai", "base_url": f"{world.model.url}/{name}/v1"} for name in ("one", "two")]
    models = [{"id": "model", "provider": name, "wire_model": f"model-of-{name}"} for name in ("one", "two")]
    return {"providers": providers, "models": models, "model": "one/model"}


def asked_models(world) -> list[str]:
    return [request["model"] for request in world.model.requests()]


def answering(answer: str, asked: list[Any] | None = None):
    def handler(request: Any, _invocation: Any) -> str:
        if asked is not None:
            asked.append(dict(request))
        return answer

    return handler


@pytest.mark.parametrize("answer", ["yes", "yes_always"])
async def test_fallback_model_answers_if_the_client_agrees(world, client, answer):
    asked: list[Any] = []
    session = await world.create(client, on_auto_mode_switch_request=answering(answer, asked), **two_models(world))
    seen = world.watch(session)
    assert await world.ask(session, LIMITED + "[[text:from the fallback]]") == "from the fallback"
    assert asked == [{"errorCode": "scripted", "retryAfterSeconds": 3600}]
    assert asked_models(world) == ["model-of-one", "model-of-two"]
    requested, completed = await seen.first("auto_mode_switch.requested"), await seen.first("auto_mode_switch.completed")
    assert (requested["errorCode"], requested["retryAfterSeconds"]) == ("scripted", 3600)
    assert (completed["requestId"], completed["response"]) == (requested["requestId"], answer)
    change = await seen.first("session.model_change")
    assert (change["previousModel"], change["newModel"]) == ("one/model", "two/model")
    assert change["cause"] == "rate_limit_auto_switch"
    assert not seen.of("session.error")

    # After "yes_always" the client is not asked again.
    assert await world.ask(session, LIMITED + "[[text:back again]]") == "back again"
    assert len(asked) == {"yes": 2, "yes_always": 1}[answer]
    assert asked_models(world)[2:] == ["model-of-two", "model-of-one"]


async def test_error_is_reported_if_the_client_declines(world, client):
    session = await world.create(client, on_auto_mode_switch_request=answering("no"), **two_models(world))
    seen = world.watch(session)
    await session.send(LIMITED + "[[text:never said]]")
    error = await seen.first("session.error")
    assert (error["errorType"], error["statusCode"]) == ("rate_limit", 429)
    await seen.idle()
    assert asked_models(world) == ["model-of-one"]
    assert await world.ask(session, "[[text:later]]") == "later"


async def test_error_is_reported_to_a_client_without_handler(world, client):
    session = await world.create(client, **two_models(world))
    seen = world.watch(session)
    await session.send(LIMITED + "[[text:never said]]")
    assert (await seen.first("session.error"))["errorType"] == "rate_limit"


async def test_switch_request_survives_a_killed_server(world):
    server = world.server()
    first = await world.client_at(server.port)
    original = await world.create(first, on_auto_mode_switch_request=world.never, **two_models(world))
    before = world.watch(original)
    await original.send(LIMITED + "[[text:after all]]")
    await before.first("auto_mode_switch.requested")
    server.kill()

    second = await world.client_at(world.server().port)
    options = two_models(world) | {"on_auto_mode_switch_request": answering("yes"), "continue_pending_work": True}
    del options["model"]  # The session has one.
    session = await world.resume(second, original.session_id, **options)
    await world.model.wait_for_requests(2)
    assert await world.ask(session, "[[text:and more]]") == "and more"
    said = [event["content"] for event in await world.history(session) if event.type == "assistant.message"]
    assert said == ["after all", "and more"]
    assert asked_models(world) == ["model-of-one", "model-of-two", "model-of-two"]

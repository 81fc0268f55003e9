"""Plan mode: the agent requests approval of its plan."""

from __future__ import annotations

from typing import Any

import adapters
import pytest
from support import call, system_message, tool_names, tool_results

pytestmark = pytest.mark.skipif(not adapters.is_newest(), reason="not supported by older SDKs")

PLAN_REQUEST = call("exit_plan_mode", summary="Greet", actions=["autopilot", "interactive", "exit_only"],
            recommendedAction="interactive")


def answering(answer: dict[str, Any], asked: list[Any] | None = None):
    def handler(request: Any, _invocation: Any) -> dict[str, Any]:
        if asked is not None:
            asked.append(dict(request))
        return answer

    return handler


async def open_plan_request(world, server) -> tuple[Any, Any, Any, Any]:
    """Opens a plan request that is not answered. Returns the client, its session, the watch and the request."""
    client = await world.client_at(server.port)
    session = await world.create(client, on_exit_plan_mode_request=world.never)
    seen = world.watch(session)
    await session.send(PLAN_REQUEST + "[[text:done]]", agent_mode="plan")
    return client, session, seen, await seen.first("exit_plan_mode.requested")


async def test_approved_plan_is_executed(world, client):
    from copilot.rpc import PlanUpdateRequest

    asked: list[Any] = []
    approval = {"approved": True, "selectedAction": "autopilot", "feedback": "Go"}
    session = await world.create(client, on_exit_plan_mode_request=answering(approval, asked))
    await session.rpc.plan.update(PlanUpdateRequest(content="1. greet"))
    seen = world.watch(session)
    assert await world.ask(session, PLAN_REQUEST + "[[text:done]]", agent_mode="plan") == "done"
    plan = {"summary": "Greet", "planContent": "1. greet", "actions": ["autopilot", "interactive", "exit_only"],
            "recommendedAction": "interactive"}
    assert {name: asked[0][name] for name in plan} == plan
    requested, completed = await seen.first("exit_plan_mode.requested"), await seen.first("exit_plan_mode.completed")
    assert {name: requested[name] for name in plan} == plan
    assert (completed["requestId"], completed["approved"]) == (requested["requestId"], True)
    assert (completed["selectedAction"], completed["feedback"]) == ("autopilot", "Go")
    changed = await seen.first("session.mode_changed")
    assert (changed["previousMode"], changed["newMode"]) == ("plan", "autopilot")
    assert (await session.rpc.mode.get()).value == "autopilot"
    first, second = world.model.requests()
    assert "plan mode" in system_message(first)
    assert "You are now in autopilot mode." in tool_results(second)[0]
    assert ["exit_plan_mode" in tool_names(request) for request in (first, second)] == [True, False]


async def test_rejected_plan_is_revised(world, client):
    refusal = {"approved": False, "feedback": "Greet twice"}
    session = await world.create(client, on_exit_plan_mode_request=answering(refusal))
    seen = world.watch(session)
    assert await world.ask(session, PLAN_REQUEST + "[[text:once more]]", agent_mode="plan") == "once more"
    second = world.model.requests()[1]
    assert tool_results(second)[0].endswith("Greet twice")
    assert "exit_plan_mode" in tool_names(second)
    assert (await seen.first("exit_plan_mode.completed"))["approved"] is False
    assert not seen.of("session.mode_changed")


async def test_exit_only_approval_ends_the_turn(world, client):
    session = await world.create(
        client, on_exit_plan_mode_request=answering({"approved": True, "selectedAction": "exit_only"})
    )
    await world.ask(session, PLAN_REQUEST + "[[text:never said]]", agent_mode="plan")
    assert len(world.model.requests()) == 1
    assert await world.ask(session, "[[text:later]]") == "later"
    assert "exit_plan_mode" not in tool_names(world.model.requests()[1])


async def test_tool_is_not_offered_without_a_plan_handler(world, client):
    await world.ask(await world.create(client), "[[text:hello]]", agent_mode="plan")
    session = await world.create(client, on_exit_plan_mode_request=world.never)
    await world.ask(session, "[[text:no plan]]")
    assert not any("exit_plan_mode" in tool_names(request) for request in world.model.requests())


async def test_first_answer_of_any_client_counts(world):
    from copilot.rpc import UIExitPlanModeResponse, UIHandlePendingExitPlanModeRequest

    server = world.server()
    _, session, seen, requested = await open_plan_request(world, server)
    watcher = await world.resume(await world.client_at(server.port), session.session_id)
    answer = UIHandlePendingExitPlanModeRequest(
        request_id=requested["requestId"], response=UIExitPlanModeResponse(approved=True)
    )
    counted = [(await watcher.rpc.ui.handle_pending_exit_plan_mode(answer)).success for _ in range(2)]
    assert counted == [True, False]
    await seen.idle()
    assert seen.last_message == "done"


async def test_next_client_answers_the_plan_request(world):
    server = world.server()
    first, session, _, requested = await open_plan_request(world, server)
    await world.drop_client(first)
    second = await world.client_at(server.port)
    asked: list[Any] = []
    options = {"on_exit_plan_mode_request": answering({"approved": True}, asked), "continue_pending_work": True}
    session = await world.resume(second, session.session_id, **options)
    await world.model.wait_for_requests(2)
    assert await world.ask(session, "[[text:and more]]") == "and more"
    assert [request["summary"] for request in asked] == [requested["summary"]]


async def test_plan_request_survives_a_killed_server(world):
    server = world.server()
    _, original, _, _ = await open_plan_request(world, server)
    server.kill()

    second = await world.client_at(world.server().port)
    options = {"on_exit_plan_mode_request": answering({"approved": True}), "continue_pending_work": True}
    session = await world.resume(second, original.session_id, **options)
    await world.model.wait_for_requests(2)
    assert await world.ask(session, "[[text:and more]]") == "and more"
    said = [event["content"] for event in await world.history(session) if event.type == "assistant.message"]
    assert said[-2:] == ["done", "and more"]
    assert "You are now in interactive mode." in tool_results(world.model.requests()[1])[0]

"""Questions of the agent to the user."""

from __future__ import annotations

from support import call, tool_names, tool_results


async def test_choice_of_the_user_is_returned(world, client):
    asked: list[dict] = []

    def answer(request, _invocation):
        asked.append(dict(request))
        return {"answer": "Tea", "wasFreeform": False}

    session = await world.create(client, on_user_input_request=answer)
    question = call("ask_user", question="What would you like?", choices=["Tea", "Coffee"])
    await world.ask(session, question + "[[text:Coming up]]")
    assert (asked[0]["question"], asked[0]["choices"]) == ("What would you like?", ["Tea", "Coffee"])
    assert tool_results(world.model.requests()[1]) == ["User selected: Tea"]


async def test_freeform_answer_of_the_user_is_returned(world, client):
    session = await world.create(
        client, on_user_input_request=lambda *_: {"answer": "Rain water", "wasFreeform": True}
    )
    question = call("ask_user", question="What would you like?", choices=["Tea", "Coffee"], allow_freeform=True)
    await world.ask(session, question + "[[text:Coming up]]")
    assert tool_results(world.model.requests()[1]) == ["User responded: Rain water"]


async def test_turn_continues_after_a_failed_handler(world, client):
    def fails(*_):
        raise RuntimeError("the terminal is gone")

    session = await world.create(client, on_user_input_request=fails)
    assert await world.ask(session, call("ask_user", question="Well?") + "[[text:Never mind]]") == "Never mind"
    assert "could not be asked" in tool_results(world.model.requests()[1])[0]


async def test_ask_user_is_not_offered_without_a_handler(world, client):
    await world.ask(await world.create(client), "[[text:hello]]")
    assert "ask_user" not in tool_names(world.model.requests()[0])

"""Hooks: a client can inspect, change and deny actions of the session."""

from __future__ import annotations

import asyncio
import json

from support import TIMEOUT, call, tool, tool_results


class Hooks(dict):
    """Hooks that record their inputs and return fixed answers."""

    def __init__(self, **answers):
        self.calls = []
        super().__init__({f"on_{name}": self._hook(name, answer) for name, answer in answers.items()})

    def _hook(self, name, answer):
        async def hook(input, _invocation):
            self.calls.append((name, input))
            return answer

        return hook

    def of(self, name):
        return [input for known, input in self.calls if known == name]


async def test_pre_tool_use_denies_a_call(world, client):
    hooks = Hooks(pre_tool_use={"permissionDecision": "deny", "permissionDecisionReason": "not today"})
    session = await world.create(client, hooks=hooks)
    made = world.work / "made"
    assert await world.ask(session, call("bash", command=f"touch {made}") + "[[text:Done]]") == "Done"
    assert tool_results(world.model.requests()[-1]) == ["Denied by preToolUse hook: not today"]
    assert [input["toolName"] for input in hooks.of("pre_tool_use")] == ["bash"]
    assert not made.exists()


async def test_pre_tool_use_is_called_for_an_unknown_tool(world, client):
    hooks = Hooks(pre_tool_use={"permissionDecision": "deny"})
    session = await world.create(client, hooks=hooks)
    await world.ask(session, call("no_such_tool", x=1) + "[[text:Done]]")
    assert tool_results(world.model.requests()[-1]) == ["Denied by preToolUse hook: No reason provided"]


async def test_hooks_change_arguments_and_results(world, client):
    got = []
    echo = tool("echo", lambda arguments: got.append(arguments["value"]) or f"said {arguments['value']}")
    changed = {"textResultForLlm": "said nothing", "resultType": "success"}
    hooks = Hooks(
        pre_tool_use={"permissionDecision": "allow", "modifiedArgs": {"value": "another"}},
        post_tool_use={"modifiedResult": changed, "additionalContext": "remember the milk"},
    )
    session = await world.create(client, hooks=hooks, tools=[echo], on_permission_request=world.never)
    await world.ask(session, call("echo", value="one"))
    assert got == ["another"]
    assert tool_results(world.model.requests()[-1]) == ["said nothing"]
    assert "remember the milk" in json.dumps(world.model.requests()[-1]["messages"])
    assert [input["toolName"] for input in hooks.of("post_tool_use")] == ["echo"]


async def test_hooks_change_the_prompt_and_add_context(world, client):
    hooks = Hooks(
        user_prompt_submitted={"modifiedPrompt": "[[text:from the hook]]"},
        session_start={"additionalContext": "it is a fine day"},
    )
    session = await world.create(client, hooks=hooks)
    assert await world.ask(session, "[[text:from the user]]") == "from the hook"
    assert hooks.of("user_prompt_submitted")[0]["prompt"] == "[[text:from the user]]"
    assert hooks.of("session_start")[0]["source"] == "new"
    assert "it is a fine day" in json.dumps(world.model.requests()[0]["messages"])


async def test_session_end_hook_is_called(world, client):
    ended = asyncio.get_running_loop().create_future()

    async def on_session_end(input, _invocation):
        ended.set_result(input)

    session = await world.create(client, hooks={"on_session_end": on_session_end})
    await world.ask(session, "hello")
    await session.disconnect()
    assert (await asyncio.wait_for(ended, TIMEOUT))["reason"]


async def test_session_continues_after_a_failed_hook(world, client):
    async def on_pre_tool_use(_input, _invocation):
        raise RuntimeError("a bad hook")

    session = await world.create(client, hooks={"on_pre_tool_use": on_pre_tool_use})
    assert await world.ask(session, call("view", path=str(world.work)) + "[[text:Done]]") == "Done"
    assert await world.ask(session, "[[text:still here]]") == "still here"

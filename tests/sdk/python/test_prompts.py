"""Requests to the model: the three modes of system messages, attachments, providers of the client."""

from __future__ import annotations

import base64

from support import call, system_message, text_of, tool_results

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


async def test_system_message_is_appended(world, client):
    suffix = "End each response with the phrase 'Have a nice day!'"
    session = await world.create(client, system_message={"mode": "append", "content": suffix})
    await world.ask(session, "What is your full name? [[text:Baton]]")
    sent = system_message(world.model.requests()[0])
    assert "GitHub" in sent
    assert sent.endswith(suffix)


async def test_system_message_is_replaced(world, client):
    replacement = "You are an assistant called Testy McTestface. Reply succinctly."
    session = await world.create(client, system_message={"mode": "replace", "content": replacement})
    await world.ask(session, "What is your full name? [[text:Testy]]")
    assert system_message(world.model.requests()[0]) == replacement


async def test_system_message_is_customized(world, client):
    tone, appended = "Respond in a warm, professional tone.", "Always mention quarterly earnings."
    sections = {"tone": {"action": "replace", "content": tone}, "code_change_rules": {"action": "remove"}}
    customized = {"mode": "customize", "sections": sections, "content": appended}
    for options in ({}, {"system_message": customized}):
        await world.ask(await world.create(client, **options), "Who are you? [[text:I]]")
    usual, sent = map(system_message, world.model.requests())
    assert "<code_change_instructions>" in usual
    assert "<code_change_instructions>" not in sent
    assert tone in sent
    assert sent.endswith(appended)
    assert "GitHub" in sent  # Other sections are unchanged.


async def test_client_rewrites_a_section(world, client):
    received: list[str] = []

    def rewrite(text: str) -> str:
        received.append(text)
        return "Speak like a pirate."

    config = {"mode": "customize", "sections": {"tone": {"action": rewrite}}}
    session = await world.create(client, system_message=config)
    await world.ask(session, "Who are you? [[text:Arr]]")
    sent = system_message(world.model.requests()[0])
    assert received[0].strip()
    assert received[0] not in sent
    assert "Speak like a pirate." in sent


async def test_image_is_attached_as_a_blob(world, client):
    session = await world.create(client)
    blob = {"type": "blob", "data": PIXEL, "mimeType": "image/png", "displayName": "test-pixel.png"}
    await world.ask(session, "Describe this image [[text:A pixel]]", attachments=[blob])
    parts = world.model.requests()[0]["messages"][-1]["content"]
    assert any("test-pixel.png" in part.get("text", "") for part in parts)
    images = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
    assert images == [f"data:image/png;base64,{PIXEL}"]


async def test_viewed_image_is_sent_to_the_model(world, client):
    path = world.work / "test-pixel.png"
    path.write_bytes(base64.b64decode(PIXEL))
    session = await world.create(client)
    await world.ask(session, "Look! " + call("view", path=str(path)) + "[[text:A pixel]]")
    assert tool_results(world.model.requests()[1]) == ["Viewed image file successfully."]
    shown = world.model.requests()[1]["messages"][-1]
    assert shown["role"] == "user"
    assert [part["type"] for part in shown["content"]] == ["text", "image_url"]
    assert shown["content"][1]["image_url"]["url"] == f"data:image/png;base64,{PIXEL}"


async def test_files_directories_and_selections_are_attached(world, client):
    (world.work / "notes.txt").write_text("one\ntwo\n")
    session = await world.create(client)
    selection = {
        "type": "selection",
        "filePath": str(world.work / "notes.txt"),
        "displayName": "notes.txt",
        "text": "two",
        "selection": {"start": {"line": 1, "character": 0}, "end": {"line": 1, "character": 3}},
    }
    attachments = [
        {"type": "file", "path": str(world.work / "notes.txt"), "displayName": "notes.txt"},
        {"type": "directory", "path": str(world.work), "displayName": "work"},
        selection,
    ]
    await world.ask(session, "Look at these [[text:I see]]", attachments=attachments)
    sent = text_of(world.model.requests()[0]["messages"][-1])
    assert f"{world.work}/notes.txt (2 lines)" in sent
    assert f"{world.work} (1 items)" in sent
    assert "notes.txt (line 2)\n```\ntwo\n```" in sent
    stored = next(event for event in await world.history(session) if event.type == "user.message")
    assert [attachment["type"] for attachment in stored["attachments"]] == ["file", "directory", "selection"]


async def test_attachments_without_display_names_are_named_in_events(world, client):
    (world.work / "notes.txt").write_text("one\n")
    session = await world.create(client)
    attachments = [{"type": "file", "path": str(world.work / "notes.txt")}, {"type": "directory", "path": str(world.work)}]
    assert await world.ask(session, "[[text:I see]]", attachments=attachments) == "I see"
    stored = next(event for event in await world.history(session) if event.type == "user.message")
    assert [attachment["displayName"] for attachment in stored["attachments"]] == ["notes.txt", world.work.name]


async def test_provider_of_the_client_is_used(world, client):
    provider = {"type": "openai", "base_url": f"{world.model.url}/mine/v1", "api_key": "key-of-the-client"}
    session = await world.create(client, provider=provider, model="my-model")
    assert await world.ask(session, "[[text:hello]]") == "hello"
    exchange = world.model.exchanges()[0]
    assert exchange["path"] == "/mine/v1/chat/completions"
    assert exchange["headers"]["authorization"] == "Bearer key-of-the-client"
    assert exchange["body"]["model"] == "my-model"
    assert not [path for path in world.home.rglob("*") if path.is_file() and b"key-of-the-client" in path.read_bytes()]


async def test_azure_provider_uses_deployment_url_and_key_header(world, client):
    provider = {
        "type": "azure",
        "base_url": world.model.url,
        "api_key": "key-of-the-client",
        "azure": {"api_version": "2024-02-15-preview"},
    }
    session = await world.create(client, provider=provider, model="my-deployment")
    assert await world.ask(session, "[[text:hello]]") == "hello"
    exchange = world.model.exchanges()[0]
    assert exchange["path"] == "/openai/deployments/my-deployment/chat/completions?api-version=2024-02-15-preview"
    assert exchange["headers"]["api-key"] == "key-of-the-client"


async def test_provider_can_be_set_on_resume(world, client):
    session = await world.create(client)
    await world.ask(session, "[[text:asked by default]]")
    provider = {"type": "openai", "base_url": f"{world.model.url}/mine/v1", "api_key": "key-of-the-client"}
    again = await world.resume(client, session.session_id, provider=provider, model="my-model")
    await world.ask(again, "[[text:asked elsewhere]]")
    paths = [exchange["path"] for exchange in world.model.exchanges()]
    assert paths == ["/chat/completions", "/mine/v1/chat/completions"]

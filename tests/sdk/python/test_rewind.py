"""Rewind of the conversation and of the files that the session's tools changed."""

from __future__ import annotations

import adapters
import pytest
from support import call

pytestmark = pytest.mark.skipif(not adapters.is_newest(), reason="not supported by older SDKs")


async def test_rewind_restores_files_and_conversation(world):
    from copilot.generated import rpc

    old = world.work / "old.txt"
    old.write_text("as it was\n")
    session = await world.create(await world.client(), enable_file_change_tracking=True)
    await world.ask(session, "[[text:nothing changed]]")
    await world.ask(session, call("edit", path=str(old), old_str="was", new_str="is"))
    await world.ask(session, call("create", path=str(world.work / "new.txt"), file_text="new\n"))
    rewind = await session.rpc.history.list_rewind_points()
    assert rewind.file_change_tracking_enabled
    assert [point.file_count for point in rewind.points] == [2, 2, 1]
    point = rewind.points[1].event_id
    preview = await session.rpc.history.preview_rewind(rpc.HistoryPreviewRewindRequest(event_id=point))
    assert [file.change_type.value for file in preview.files] == ["created", "modified"]
    mode = rpc.HistoryRewindMode.CONVERSATION_AND_FILES
    done = await session.rpc.history.rewind(rpc.HistoryRewindRequest(event_id=point, mode=mode))
    assert done.outcome == rpc.HistoryRewindOutcome.SUCCESS and len(done.restored_files) == 2
    assert old.read_text() == "as it was\n" and not (world.work / "new.txt").exists()
    assert point not in [str(event.id) for event in await session.get_events()]

"""The built-in tools, from the model's call to the result that the model is given."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from support import call, processes_of, tool_results, until


async def use(world, client, name: str, **arguments) -> str:
    """Has the model call one tool, and returns what it was told."""
    session = await world.create(client)
    await world.ask(session, call(name, **arguments) + "[[text:Done]]")
    return tool_results(world.model.requests()[-1])[-1]


async def test_bash_gives_output_and_exit_code(world, client):
    told = await use(world, client, "bash", command="echo out; echo err >&2; exit 3", description="try")
    assert set(told.split("\n")[:2]) == {"out", "err"}
    assert "exit code 3" in told


async def test_bash_works_in_the_session_s_directory_and_sees_no_secrets(world):
    client = await world.client(COPILOT_SDK_AUTH_TOKEN="secret-token", OPENAI_API_KEY="secret-key")
    told = await use(world, client, "bash", command="pwd; env", description="look around")
    assert told.startswith(f"{world.work}\n")
    assert "secret-" not in told


async def test_the_middle_of_a_long_output_goes_to_a_file(world, client):
    told = await use(world, client, "bash", command="seq 1 20000", description="count")
    assert len(told) < 60_000
    assert told.startswith("1\n2\n")
    assert "\n10000\n" not in told
    assert "\n20000\n" in told
    path = next(word for word in told.split() if word.startswith(str(world.home)))
    assert "\n10000\n" in Path(path.rstrip("].")).read_text()


async def test_a_background_command_is_written_to(world, client):
    session = await world.create(client)
    start = call("bash", command="read line; echo got $line", description="wait", mode="async", shellId="tea")
    write = call("write_bash", shellId="tea", input="green{enter}", delay=10)
    await world.ask(session, start + write + "[[text:Done]]")
    started, wrote = tool_results(world.model.requests()[-1])
    assert "tea" in started
    assert "got green" in wrote


async def test_a_background_command_is_stopped(world, client):
    session = await world.create(client)
    start = call("bash", command="sleep 100", description="wait", mode="async", shellId="nap")
    await world.ask(session, start + call("stop_bash", shellId="nap") + "[[text:Done]]")
    assert "stopped" in tool_results(world.model.requests()[-1])[1].lower()
    await until(lambda: "sleep 100" not in processes_of(world.home).values(), "the end of the command")


async def test_view_numbers_the_lines(world, client):
    (world.work / "poem.txt").write_text("roses\nviolets\n")
    told = await use(world, client, "view", path=str(world.work / "poem.txt"))
    assert told.startswith("1. roses\n2. violets")


async def test_create_writes_a_file(world, client):
    path = world.work / "new" / "hello.txt"
    told = await use(world, client, "create", path=str(path), file_text="hello world")
    assert path.read_text() == "hello world"
    assert told == f"Created file {path} with 11 characters"


async def test_edit_changes_a_file(world, client):
    path = world.work / "hello.txt"
    path.write_text("hello world")
    told = await use(world, client, "edit", path=str(path), old_str="world", new_str="moon")
    assert path.read_text() == "hello moon"
    assert told == f"File {path} updated with changes."


async def test_grep_finds_lines(world, client):
    (world.work / "a.txt").write_text("apple\nberry\n")
    (world.work / "b.txt").write_text("cherry\n")
    told = await use(world, client, "grep", pattern="[ab]err", output_mode="content", **{"-n": True})
    assert "a.txt:2:berry" in told
    assert "cherry" not in told


async def test_glob_finds_files(world, client):
    (world.work / "src").mkdir()
    (world.work / "src" / "index.ts").write_text("")
    (world.work / "readme.md").write_text("")
    assert await use(world, client, "glob", pattern="**/*.ts") == "./src/index.ts"


async def test_sql_keeps_todos(world, client):
    session = await world.create(client)
    seen = world.watch(session)
    insert = call("sql", query="INSERT INTO todos (id, title) VALUES ('a', 'Test it')", description="note")
    select = call("sql", query="SELECT title, status FROM todos", description="look")
    await world.ask(session, insert + select + "[[text:Done]]")
    inserted, selected = tool_results(world.model.requests()[-1])
    assert inserted.startswith("1 row(s) inserted.")
    assert "Test it" in selected
    assert "pending" in selected
    assert all(event["success"] for event in seen.of("tool.execution_complete"))


@pytest.fixture
def website():
    class Page(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(b"<html><body><h1>Weather</h1><p>It rains.</p><script>no()</script></body></html>")

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


async def test_web_fetch_reads_a_page(world, client, website):
    told = await use(world, client, "web_fetch", url=website)
    assert "# Weather" in told
    assert "It rains." in told
    assert "no()" not in told

"""The built-in tools, from the model's call to the result that the model gets."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from support import call, processes_of, tool_results, until


async def use(world, client, name: str, **arguments) -> str:
    """Makes the model call a tool. Returns the result that the model gets."""
    session = await world.create(client)
    await world.ask(session, call(name, **arguments) + "[[text:Done]]")
    return tool_results(world.model.requests()[-1])[-1]


async def test_bash_returns_output_and_exit_code(world, client):
    result = await use(world, client, "bash", command="echo out; echo err >&2; exit 3", description="try")
    assert set(result.split("\n")[:2]) == {"out", "err"}
    assert "exit code 3" in result


async def test_bash_runs_in_the_session_directory_without_secrets(world):
    client = await world.client(COPILOT_SDK_AUTH_TOKEN="secret-token", OPENAI_API_KEY="secret-key")
    result = await use(world, client, "bash", command="pwd; env", description="look around")
    assert result.startswith(f"{world.work}\n")
    assert "secret-" not in result


async def test_middle_of_long_output_is_written_to_a_file(world, client):
    result = await use(world, client, "bash", command="seq 1 20000", description="count")
    assert len(result) < 60_000
    assert result.startswith("1\n2\n")
    assert "\n10000\n" not in result
    assert "\n20000\n" in result
    path = next(word for word in result.split() if word.startswith(str(world.home)))
    assert "\n10000\n" in Path(path.rstrip("].")).read_text()


async def test_write_bash_writes_to_a_background_command(world, client):
    session = await world.create(client)
    start = call("bash", command="read line; echo got $line", description="wait", mode="async", shellId="tea")
    write = call("write_bash", shellId="tea", input="green{enter}", delay=10)
    await world.ask(session, start + write + "[[text:Done]]")
    started, wrote = tool_results(world.model.requests()[-1])
    assert "tea" in started
    assert "got green" in wrote


async def test_stop_bash_ends_a_background_command(world, client):
    session = await world.create(client)
    start = call("bash", command="sleep 100", description="wait", mode="async", shellId="nap")
    await world.ask(session, start + call("stop_bash", shellId="nap") + "[[text:Done]]")
    assert "stopped" in tool_results(world.model.requests()[-1])[1].lower()
    await until(lambda: "sleep 100" not in processes_of(world.home).values(), "the end of the command")


async def test_view_numbers_lines(world, client):
    (world.work / "poem.txt").write_text("roses\nviolets\n")
    result = await use(world, client, "view", path=str(world.work / "poem.txt"))
    assert result.startswith("1. roses\n2. violets")


async def test_create_writes_a_file(world, client):
    path = world.work / "new" / "hello.txt"
    result = await use(world, client, "create", path=str(path), file_text="hello world")
    assert path.read_text() == "hello world"
    assert result == f"Created file {path} with 11 characters"


async def test_edit_changes_a_file(world, client):
    path = world.work / "hello.txt"
    path.write_text("hello world")
    result = await use(world, client, "edit", path=str(path), old_str="world", new_str="moon")
    assert path.read_text() == "hello moon"
    assert result == f"File {path} updated with changes."


async def test_grep_finds_lines(world, client):
    (world.work / "a.txt").write_text("apple\nberry\n")
    (world.work / "b.txt").write_text("cherry\n")
    result = await use(world, client, "grep", pattern="[ab]err", output_mode="content", **{"-n": True})
    assert "a.txt:2:berry" in result
    assert "cherry" not in result


async def test_glob_finds_files(world, client):
    (world.work / "src").mkdir()
    (world.work / "src" / "index.ts").write_text("")
    (world.work / "readme.md").write_text("")
    assert await use(world, client, "glob", pattern="**/*.ts") == "./src/index.ts"


async def test_sql_stores_todos(world, client):
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
    result = await use(world, client, "web_fetch", url=website)
    assert "# Weather" in result
    assert "It rains." in result
    assert "no()" not in result

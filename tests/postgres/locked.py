"""An MCP server that needs a login, with its authorization server."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Self

SCRIPT = Path(__file__).parents[2] / "crates/baton/tests/it/oauth_server.py"


class LockedServer:
    def __enter__(self) -> Self:
        command = [sys.executable, str(SCRIPT), "well"]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline())
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def configure(self, home: Path) -> None:
        """Configures it for all sessions of a server that is started later."""
        home.mkdir(mode=0o700)
        servers = {"locked": {"type": "http", "url": f"http://127.0.0.1:{self.port}/mcp"}}
        (home / "mcp-config.json").write_text(json.dumps({"mcpServers": servers}))


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


def redirect_of(url: str) -> str:
    """Opens an address, and returns where it sends the browser."""
    try:
        urllib.request.build_opener(NoRedirect).open(url, timeout=30)
    except urllib.error.HTTPError as error:
        assert error.code == 302, error
        return error.headers["location"]
    raise AssertionError(f"{url} does not redirect")

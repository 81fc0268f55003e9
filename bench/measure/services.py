"""Services for runtimes: the scripted model of baton-testkit, and a GitHub API with one user.

Both are separate processes: a thread would compete with the measuring code for the interpreter.
"""

import contextlib
import json
import socketserver
import subprocess
import sys

from .process import Endpoints


@contextlib.contextmanager
def serving(model_program):
    """Runs both services. Yields their addresses."""
    with contextlib.ExitStack() as stack:
        model = stack.enter_context(announcing([model_program]))
        github = stack.enter_context(announcing([sys.executable, "-m", "measure.services", model]))
        yield Endpoints(model=model, github=github)


@contextlib.contextmanager
def announcing(command):
    """Runs a service that prints `listening HOST:PORT`. Yields its URL."""
    service = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield "http://" + service.stdout.readline().split()[1]
    finally:
        service.terminate()
        service.wait()
        service.stdout.close()


class GitHub(socketserver.StreamRequestHandler):
    """Answers `GET /copilot_internal/user`, and 404 to all other requests."""

    disable_nagle_algorithm = True

    def handle(self):
        """Serves all requests of one connection."""
        while request := self.rfile.readline():
            length = 0
            while header := self.rfile.readline().strip().lower():
                if header.startswith(b"content-length:"):
                    length = int(header.split(b":")[1])
            self.rfile.read(length)
            self.answer(request.split()[1])

    def answer(self, path):
        """Answers in one write: a second one would wait for an acknowledgement and cost the client 40 ms."""
        known = path.startswith(b"/copilot_internal/user")
        body = json.dumps(self.server.user if known else {"message": "Not Found"}).encode()
        status = b"200 OK" if known else b"404 Not Found"
        head = b"HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
        self.wfile.write(head % (status, len(body)) + body)


def serve_github(model_url):
    """Runs the GitHub API until it is killed."""
    socketserver.ThreadingTCPServer.daemon_threads = True
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), GitHub) as server:
        server.user = {
            "login": "bench",
            "copilot_plan": "individual_pro",
            "is_mcp_enabled": True,
            "analytics_tracking_id": "bench",
            "endpoints": {"api": model_url, "telemetry": "https://localhost:1/telemetry"},
        }
        print(f"listening 127.0.0.1:{server.server_address[1]}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    serve_github(sys.argv[1])

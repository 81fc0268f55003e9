"""Measures what a backup costs: the time of prompts while `baton backup` runs, next to the time without it.

Started by `bench/run backup`. The server has many sessions with histories; clients prompt the scripted model over HTTP. Rounds with and without a backup alternate, so that both see the same machine.
"""

import http.client
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import tempfile
import threading
import time

from . import part, programs, services

FILLER = "A line of a longer conversation that a backup has to copy.\n" * 40


def main():
    """Runs the measurement and prints the table."""
    parser = part.arguments("backup", __doc__)
    parser.add_argument("--sessions", type=int, default=1000, help="number of stored sessions (default: 1000)")
    parser.add_argument("--clients", type=int, default=4, help="number of concurrent clients (default: 4)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each kind (default: 5)")
    options = parser.parse_args()
    load = part.prepare(options, "--bins")
    baton = str(options.baton or programs.target() / "baton")
    directory = pathlib.Path(tempfile.mkdtemp(prefix="baton-bench-backup-"))
    try:
        with services.announcing([programs.scripted_model()]) as model:
            figures = measure(baton, model, directory, options)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    part.print_rows(list(rows(figures, options)), load)


def rows(figures, options):
    """Formats the figures."""
    quiet, loaded = statistics.median(figures["quiet"]), statistics.median(figures["backup"])
    slower = loaded / quiet - 1
    size, seconds = figures["bytes"] / 1e6, statistics.median(figures["seconds"])
    yield f"backup of {options.sessions:,} sessions under load", f"{seconds:.1f} s for {size:,.0f} MB", ""
    yield f"prompt and answer, {options.clients} concurrent clients", f"p50 {quiet * 1000:.2f} ms", ""
    yield "the same while a backup runs", f"p50 {loaded * 1000:.2f} ms", ""
    yield "slower by", f"{slower:.1%}", f"<= 10 % {part.verdict(slower <= 0.1)}"


def measure(baton, model, directory, options):
    """Returns the times of prompts, in rounds with and without a backup."""
    home = directory / "home"
    command = [baton, "--home", str(home), "serve", "--http", "127.0.0.1:0"]
    variables = {"OPENAI_BASE_URL": f"{model}/v1", "OPENAI_API_KEY": "key", "OPENAI_MODEL": "scripted"}
    environment = {**os.environ, **variables}
    quiet = subprocess.DEVNULL
    server = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=quiet, text=True)
    try:
        address = next(line for line in server.stdout if "http://" in line).split("http://")[1].strip()
        token = (home / "token").read_text().strip()
        fill(address, token, options)
        figures = {"quiet": [], "backup": [], "seconds": [], "bytes": 0}
        warm = time.monotonic() + 2
        prompt_for(lambda: time.monotonic() > warm, address, token, options)
        for number in range(options.rounds):
            archive = directory / f"{number}.tar"
            backup = [baton, "--home", str(home), "backup", "--json", str(archive)]
            begun = time.monotonic()
            running = subprocess.Popen(backup, stdout=subprocess.PIPE, text=True)
            figures["backup"] += prompt_for(lambda: running.poll() is not None, address, token, options)
            seconds = time.monotonic() - begun
            if running.returncode != 0:
                raise SystemExit("bench: the backup failed")
            figures["bytes"] = json.loads(running.stdout.read())["bytes"]
            figures["seconds"].append(seconds)
            archive.unlink()
            end = time.monotonic() + seconds
            figures["quiet"] += prompt_for(lambda: time.monotonic() > end, address, token, options)
        return figures
    finally:
        server.terminate()
        server.wait()


def fill(address, token, options):
    """Creates the sessions, each with a prompt and its answer."""
    part.say(f"creating {options.sessions} sessions")

    def work(numbers):
        client = Client(address, token)
        for number in numbers:
            client.create(f"s{number}")
            for _ in range(4):
                client.prompt(f"s{number}", "[[text:hello]] " + FILLER)

    together([lambda n=n: work(range(n, options.sessions, options.clients)) for n in range(options.clients)])


def prompt_for(is_over, address, token, options):
    """Prompts with all clients until it is over. Returns the times of all prompts."""
    times = []

    def work(number):
        client, session = Client(address, token), f"s{number}"
        while not is_over():
            begun = time.perf_counter()
            client.prompt(session, "[[text:hello]]")
            times.append(time.perf_counter() - begun)

    together([lambda n=n: work(n) for n in range(options.clients)])
    return times


def together(jobs):
    """Runs functions in threads, and waits for all."""
    threads = [threading.Thread(target=job) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class Client:
    """A client of the HTTP API, on one connection."""

    def __init__(self, address, token):
        self.connection = http.client.HTTPConnection(address, timeout=60)
        self.headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}

    def create(self, session):
        """Creates a session."""
        self.send("POST", "/api/sessions", {"id": session})

    def prompt(self, session, text):
        """Sends a prompt, and waits for its outcome."""
        prompt = self.send("POST", f"/api/sessions/{session}/prompts", {"text": text})["promptId"]
        path = f"/api/sessions/{session}/prompts/{prompt}"
        while self.send("GET", path)["state"] in ("queued", "running"):
            time.sleep(0.001)

    def send(self, method, path, body=None):
        """Sends a request, and returns the answer."""
        self.connection.request(method, path, json.dumps(body) if body else None, self.headers)
        answer = self.connection.getresponse()
        text = answer.read()
        if answer.status >= 300:
            raise SystemExit(f"bench: {method} {path}: {answer.status} {text[:200]}")
        return json.loads(text)


if __name__ == "__main__":
    part.run(main)

"""Clients that cost little, so that measurements show the servers: bytes on sockets, in one thread."""

from __future__ import annotations

import json
import selectors
import socket
import time
import urllib.parse

from servers import TOKEN

PROMPT = "x" * 200


def dial(url: str) -> socket.socket:
    host, port = urllib.parse.urlparse(url).netloc.split(":")
    connection = socket.create_connection((host, int(port)), 30)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def head(method: str, path: str, *lines: str) -> bytes:
    lines = (f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", f"Authorization: Bearer {TOKEN}", *lines)
    return "".join(line + "\r\n" for line in (*lines, "")).encode()


class Poster:
    """Sends the same prompt again as soon as the last one was accepted."""

    def __init__(self, url: str, session: str) -> None:
        body = json.dumps({"text": PROMPT}).encode()
        lines = ("Content-Type: application/json", f"Content-Length: {len(body)}")
        self.request = head("POST", f"/api/sessions/{session}/prompts", *lines) + body
        self.socket, self.answer, self.accepted = dial(url), b"", 0
        self.socket.sendall(self.request)

    def read(self) -> None:
        self.answer += self.socket.recv(65536)
        before, found, after = self.answer.partition(b"\r\n\r\n")
        if not found or len(after) < int(before.lower().split(b"content-length: ")[1].split(b"\r\n")[0]):
            return
        assert before.startswith(b"HTTP/1.1 202"), self.answer
        self.accepted += 1
        self.answer = b""
        self.socket.sendall(self.request)


def flood(targets: list[tuple[str, str]], seconds: float) -> float:
    """Returns the prompts accepted a second, with one client for each session."""
    selector, posters = selectors.EpollSelector(), [Poster(url, session) for url, session in targets]
    for poster in posters:
        selector.register(poster.socket, selectors.EVENT_READ, poster)
    began = time.monotonic()
    while (took := time.monotonic() - began) < seconds:
        for key, _ in selector.select(1):
            key.data.read()
    [poster.socket.close() for poster in posters]
    return sum(poster.accepted for poster in posters) / took


class Pieces:
    """Readers of event streams, which note when each streamed piece arrived."""

    def __init__(self, streams: list[tuple[str, str]]) -> None:
        self.selector, self.count = selectors.EpollSelector(), len(streams)
        for number, (url, session) in enumerate(streams):
            connection = dial(url)
            connection.sendall(head("GET", f"/api/sessions/{session}/events", "Accept: text/event-stream"))
            # Streams begin with the events so far.
            answer = b""
            while b"session.start" not in answer:
                answer += connection.recv(65536)
            self.selector.register(connection, selectors.EVENT_READ, number)

    def of_turn(self) -> list[list[float]]:
        """Reads to the end of a turn. Returns the times at which pieces arrived on each stream."""
        times, texts, idle = [[] for _ in range(self.count)], [b""] * self.count, 0
        while idle < self.count:
            for key, _ in self.selector.select(30):
                text, now = key.fileobj.recv(1 << 20), time.monotonic()
                assert text, "the stream ended"
                # A name may be split between two reads.
                joined = texts[key.data][-64:] + text
                fresh = lambda name: joined.count(name) - texts[key.data][-64:].count(name)  # noqa: E731, B023
                times[key.data] += [now] * fresh(b"event: assistant.message_delta")
                idle += fresh(b"event: session.idle")
                texts[key.data] = joined
        return times

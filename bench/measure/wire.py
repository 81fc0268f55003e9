"""A minimal client: frames over file descriptors, without threads, tasks or queues.

An SDK would add its own time to every figure. Frames that are not waited for are not parsed: one program sends many
more of them than the other, and the cost of parsing JSON in Python is not to be measured.
"""

import json
import os
import select
import socket
import time


class ConnectionClosed(Exception):
    """The program has closed the connection."""


class CallFailed(Exception):
    """The program answered a call with an error, or a session reported one."""


class Wire:
    """One connection to a runtime, on a pair of file descriptors."""

    def __init__(self, read_fd, write_fd, timeout=60.0):
        self.read_fd, self.write_fd, self.timeout = read_fd, write_fd, timeout
        self.poll = select.poll()
        self.poll.register(read_fd, select.POLLIN)
        self.buffer = bytearray()
        self.last_id = 0
        self.frames = 0
        self.received = 0

    @classmethod
    def to_port(cls, port, **options):
        """Connects over TCP."""
        sock = socket.create_connection(("127.0.0.1", port))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        wire = cls(sock.fileno(), sock.fileno(), **options)
        wire.socket = sock
        return wire

    def call(self, method, params):
        """Calls a method and returns its result. Skips notifications before the reply."""
        return self.wait_for(self.begin(method, params))

    def begin(self, method, params):
        """Sends a call without waiting. Returns its id."""
        return self.send(self.encoded(method, params))

    def encoded(self, method, params):
        """Returns the id and the frame of a call that is sent later, so that encoding it is not measured."""
        self.last_id += 1
        body = json.dumps({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params}).encode()
        return self.last_id, b"Content-Length: %d\r\n\r\n%s" % (len(body), body)

    def send(self, encoded):
        """Sends an encoded call without waiting. Returns its id."""
        call_id, frame = encoded
        self._write(frame)
        return call_id

    def wait_for(self, call_id):
        """Waits for the reply to a call."""
        while True:
            reply = json.loads(self.next_reply())
            if reply.get("id") != call_id:
                continue
            if "error" in reply:
                raise CallFailed(reply["error"].get("message"))
            return reply["result"]

    def next_reply(self):
        """Returns the next frame that is not a notification, unparsed. Notifications begin with their method."""
        while b'"method"' in (frame := self.read_frame())[:40]:
            pass
        return frame

    def wait_for_event(self, kind):
        """Waits for a session event of this type."""
        wanted = b'"%s"' % kind.encode()
        while True:
            frame = self.read_frame()
            if wanted not in frame and b'"session.error"' not in frame:
                continue
            event = json.loads(frame).get("params", {}).get("event", {})
            if event.get("type") == kind:
                return event
            if event.get("type") == "session.error":
                raise CallFailed(event["data"].get("message"))

    def read_frame(self):
        """Returns the body of the next frame."""
        while (frame := self._take_frame()) is None:
            self._fill()
        return frame

    def take_frames(self):
        """Reads once and returns the bodies of all complete frames."""
        self._fill()
        return list(iter(self._take_frame, None))

    def _take_frame(self):
        head = self.buffer.find(b"\r\n\r\n")
        if head < 0:
            return None
        end = head + 4 + int(self.buffer[self.buffer.find(b":") + 1 : head])
        if len(self.buffer) < end:
            return None
        frame = bytes(self.buffer[head + 4 : end])
        del self.buffer[:end]
        self.frames += 1
        return frame

    def _fill(self):
        if not self.poll.poll(self.timeout * 1000):
            raise TimeoutError(f"no output from the program for {self.timeout:.0f} s")
        chunk = os.read(self.read_fd, 1 << 16)
        if not chunk:
            raise ConnectionClosed("the program has closed the connection")
        self.buffer += chunk
        self.received += len(chunk)

    def _write(self, data):
        while data:
            data = data[os.write(self.write_fd, data) :]


def timed(action):
    """Runs an action. Returns the time in milliseconds, and the result."""
    start = time.perf_counter_ns()
    result = action()
    return (time.perf_counter_ns() - start) / 1e6, result

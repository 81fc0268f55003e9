"""Common parts of the SDKs of March and April 2026: configuration objects, `get_messages`, decisions by kind."""

from __future__ import annotations

from copilot import CopilotClient
from copilot.client import ExternalServerConfig, SubprocessConfig
from copilot.session import PermissionRequestResult

from .base import Sdk


class Sdk0(Sdk):
    continues_pending_work = False
    knows_tokens = False
    stops_its_tcp_server = False
    #: The kinds of decisions, by meaning.
    kinds: dict[str, str]

    def stdio(self, program, *, env, cwd, args=()):
        return CopilotClient(SubprocessConfig(program, list(args), cwd=cwd, env=env))

    def tcp(self, program, *, env, cwd):
        return CopilotClient(SubprocessConfig(program, cwd=cwd, env=env, use_stdio=False))

    def at(self, port, token=None):
        assert token is None, "this SDK does not support tokens"
        return CopilotClient(ExternalServerConfig(url=f"localhost:{port}"))

    def port(self, client):
        return client.actual_port

    def decision(self, meaning):
        return PermissionRequestResult(kind=self.kinds[meaning])

    async def raw_history(self, session):
        return await session.get_messages()

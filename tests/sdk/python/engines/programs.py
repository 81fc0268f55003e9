"""Configures the real programs to use the scripted model."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

from support import Model

#: The installed programs, one directory for each.
INSTALLED = Path(os.environ.get("BATON_ENGINES", "/nowhere"))

#: Environment variables, and additional lines of the configuration table.
Setup = tuple[dict[str, str], str]


def codex(home: Path, model: Model) -> Setup:
    directory = home / "codex"
    directory.mkdir()
    (directory / "config.toml").write_text(
        'model = "scripted"\nmodel_provider = "scripted"\n[model_providers.scripted]\nname = "Scripted"\n'
        f'base_url = "{model.url}/v1"\nwire_api = "responses"\nenv_key = "SCRIPTED_KEY"\n'
        "request_max_retries = 1\nstream_max_retries = 1\n"
    )
    return {"CODEX_HOME": str(directory), "SCRIPTED_KEY": "dummy"}, ""


def claude(_home: Path, model: Model) -> Setup:
    return {
        "ANTHROPIC_BASE_URL": model.url,
        "ANTHROPIC_API_KEY": "dummy",
        "ANTHROPIC_MODEL": "claude-sonnet-4-5",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_RETRIES": "1",
        "DISABLE_AUTOUPDATER": "1",
        "IS_SANDBOX": "1",
    }, ""


def pi(home: Path, model: Model) -> Setup:
    directory = home / ".pi" / "agent"
    directory.mkdir(parents=True)
    described = {
        "id": "scripted", "name": "Scripted", "contextWindow": 100_000, "maxTokens": 8000, "reasoning": False,
        "input": ["text"], "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
    }  # fmt: skip
    provider = {
        "baseUrl": f"{model.url}/v1", "api": "openai-completions", "apiKey": "SCRIPTED_KEY", "models": [described],
    }  # fmt: skip
    (directory / "models.json").write_text(json.dumps({"providers": {"scripted": provider}}))
    settings = {"defaultProvider": "scripted", "defaultModel": "scripted", "retry": {"baseDelayMs": 100}}
    (directory / "settings.json").write_text(json.dumps(settings))
    return {"SCRIPTED_KEY": "dummy", "PI_OFFLINE": "1"}, ""


def opencode(home: Path, model: Model) -> Setup:
    directory = home / "config" / "opencode"
    directory.mkdir(parents=True)
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{model.url}/v1", "apiKey": "dummy"},
        "models": {"scripted": {"name": "Scripted", "limit": {"context": 100_000, "output": 8000}}},
    }
    config = {"provider": {"scripted": provider}, "model": "scripted/scripted", "small_model": "scripted/scripted"}
    (directory / "opencode.json").write_text(json.dumps(config))
    return {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}, ""


PROGRAMS: dict[str, Callable[[Path, Model], Setup]] = {
    "claude": claude,
    "codex": codex,
    "opencode": opencode,
    "pi": pi,
}


def installed(name: str) -> Path:
    return INSTALLED / name / "node_modules" / ".bin" / name


def configuration(name: str, home: Path, model: Model) -> str:
    """Returns the configuration table of a program."""
    variables, further = PROGRAMS[name](home, model)
    table = ", ".join(f"{key} = {json.dumps(value)}" for key, value in variables.items())
    return f'[engines.{name}]\nprogram = "{installed(name)}"\nenv = {{ {table} }}\n{further}'

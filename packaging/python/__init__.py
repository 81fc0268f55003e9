"""The program `baton`, as installed by this package."""

import importlib.metadata

__all__ = ["path"]


def path() -> str:
    """Returns the path of the program, for `COPILOT_CLI_PATH` or `RuntimeConnection.for_stdio(path=...)`."""
    for file in importlib.metadata.files("baton-server") or []:
        if file.name == "baton" and "dist-info" not in str(file):
            return str(file.locate().resolve())
    raise FileNotFoundError("the program baton is missing; reinstall baton-server")

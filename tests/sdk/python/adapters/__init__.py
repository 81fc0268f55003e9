"""One interface to all generations of the SDK, so that every test is written once."""

from importlib.metadata import version
from pathlib import Path

from .base import Event, Sdk

__all__ = ["Event", "Sdk", "is_newest", "load"]


def is_newest() -> bool:
    """Whether the SDK on the path is the newest tested version."""
    tested = (Path(__file__).parent.parent / "sdk-versions.txt").read_text().splitlines()
    return tested[-1].split()[0] == version("github-copilot-sdk")


def load() -> Sdk:
    """Returns the adapter for the SDK on the path."""
    installed = version("github-copilot-sdk")
    if installed.startswith("0.2."):
        from .v0_2 import Sdk02 as Adapter
    elif installed.startswith("0.3."):
        from .v0_3 import Sdk03 as Adapter
    else:
        from .v1 import Sdk1 as Adapter
    return Adapter(installed)

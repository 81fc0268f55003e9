"""One face for all generations of the SDK, so that every test is written once."""

from importlib.metadata import version

from .base import Event, Sdk

__all__ = ["Event", "Sdk", "load"]


def load() -> Sdk:
    """The adapter for the SDK that is on the path."""
    installed = version("github-copilot-sdk")
    if installed.startswith("0.2."):
        from .v0_2 import Sdk02 as Adapter
    elif installed.startswith("0.3."):
        from .v0_3 import Sdk03 as Adapter
    else:
        from .v1 import Sdk1 as Adapter
    return Adapter(installed)

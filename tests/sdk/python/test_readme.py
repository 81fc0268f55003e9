"""The README's example."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from support import REPOSITORY, TIMEOUT, program


def test_example_runs_a_command(sdk, tmp_path):
    if sdk.version.startswith("0."):
        pytest.skip("the example is for the stable versions")
    [example] = re.findall(r"^```python run\n(.*?)^```", (REPOSITORY / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.environ["PYTHONPATH"],
        "HOME": str(tmp_path),
        "COPILOT_CLI_PATH": program("baton"),
    }
    run = subprocess.run(
        [sys.executable, "-c", example], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT
    )
    assert (run.returncode, "hello" in run.stdout) == (0, True), run.stdout + run.stderr
    assert "handle_notification" not in run.stderr, "the SDK could not read an event: " + run.stderr

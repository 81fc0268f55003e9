"""Several servers on one database: `bench/run scale`. See `tests/postgres/figures.py`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

if __name__ == "__main__":
    release = ROOT / "target/release"
    os.environ.setdefault("BATON_BIN_DIR", str(release if (release / "baton").exists() else ROOT / "target/debug"))
    os.environ["BATON_TEST_FSYNC"] = "on"
    command = [str(ROOT / "tests/postgres/with-cluster"), str(ROOT / "tests/postgres/run"), "figures", *sys.argv[1:]]
    os.execv(command[0], command)

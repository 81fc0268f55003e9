"""The Rust toolchain of scripts that call cargo.

rustup looks up the toolchain of `rust-toolchain.toml` by its name. A machine that has this Rust under another name only, and cannot
download it, would stop at the first `cargo`: there, the default toolchain of rustup is used.
"""

from __future__ import annotations

import os
import shutil
import subprocess


def use() -> None:
    """Makes `cargo` find a toolchain, for this program and those that it starts."""
    if not shutil.which("rustup") or "RUSTUP_TOOLCHAIN" in os.environ:
        return
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    if subprocess.run(["cargo", "--version"], **quiet).returncode == 0:
        return
    default = subprocess.run(["rustup", "default"], capture_output=True, text=True)
    if name := default.stdout.split(" ")[0].strip():
        os.environ["RUSTUP_TOOLCHAIN"] = name

"""The screen's rules for C++ kernels."""

from __future__ import annotations

from pathlib import Path

from evokernel.backends.native import screen
from evokernel.backends.native.screen import Rules


def rules() -> Rules:
    """Read when first needed."""
    return screen.read(Path(__file__).parent / "screen.toml")

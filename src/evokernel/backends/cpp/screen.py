"""Screening rules for C++ kernels."""

from __future__ import annotations

from pathlib import Path

from evokernel.backends.native import screen
from evokernel.backends.native.screen import ScreenRules


def screen_rules() -> ScreenRules:
    """Reads the rules; cached after the first call."""
    return screen.read_rules(Path(__file__).parent / "screen.toml")

"""Runs a candidate again with its memory accesses watched, on a small size, where the backend can."""

from __future__ import annotations

from evokernel.verify.trial import Trial


def applies(trial: Trial) -> bool:
    """Not yet anywhere."""
    return False


def sanitize(trial: Trial) -> None:
    """Not yet."""

"""A second look at a candidate by a model that can only veto."""

from __future__ import annotations

from evokernel.verify.trial import Trial


def applies(trial: Trial) -> bool:
    """Only where the run asks for it."""
    return False


def audit(trial: Trial) -> None:
    """Not yet."""

"""Repairs: a candidate that a compiler or a rule refused may be corrected within its attempt. Wrong values are never repaired."""

from __future__ import annotations

from evokernel.core.records import Context, Outcome, Reply

REPAIRABLE_GATES = ("write", "screen", "build")
RULE_REASONS = frozenset({"alignment", "block_shape", "dtype", "event", "launch", "local_memory", "mask", "queue", "tiling", "unsupported"})
"""Reasons of later gates that name a broken rule of the device, and reveal nothing about expected values."""
FINAL_REASONS = frozenset({"duplicate", "revoked"})
"""Reasons of early gates that ask for another kernel, not for a correction."""


def is_repairable(outcome: Outcome) -> bool:
    """Return whether a candidate failed by an error of form: no usable code, a compiler's error, or a rule's error."""
    failure = outcome.failure
    if failure is None or failure.reason in FINAL_REASONS:
        return False
    return failure.gate in REPAIRABLE_GATES or failure.reason in RULE_REASONS


def apply_repair(reply: Reply, context: Context, repair: Reply) -> tuple[Reply, Context]:
    """Return the reply with the corrected candidate and the context with the step; a repair without code keeps the candidate.

    The candidate keeps the cost of its first call; the step has the cost of the repair.
    """
    if repair.candidate.files:
        reply = reply.model_copy(update={"candidate": repair.candidate.model_copy(update={"usage": reply.candidate.usage})})
    return reply, context.model_copy(update={"steps": (*context.steps, *([repair.step] if repair.step else []))})

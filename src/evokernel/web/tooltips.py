"""Explanations that the dashboard shows as tooltips: columns, totals and bottlenecks."""

from __future__ import annotations

from typing import Any

from evokernel.core.glossary import explain_term
from evokernel.reports.formatting import BOTTLENECK_EXPLANATIONS
from evokernel.reports.opportunities import NOTE as OPPORTUNITY_NOTE

TOOLTIPS: dict[str, Any] = {
    "q1": f"The value of a memory item for drafting. {explain_term('value')}",
    "q2": f"The value of a memory item for refining. {explain_term('value')}",
    "value": explain_term("value"),
    "visits": explain_term("visits"),
    "why": "Why the policy showed the item: the gain in reward that it expected, by what it knew about task and item.",
    "kind": "api: API card; practice: practice card; experience: lesson of an attempt; trace: kernel of an attempt.",
    "reward": "Reward of an attempt, between -1 and 1: -1 for a failure, higher for a correct and for a faster kernel.",
    "tool_use": "What the agent did within this attempt, and the kernels that it verified itself. The attempt's kernel was verified again.",
    "steps": "Optional model calls of an attempt besides the one that wrote the kernel: a plan, a critic's change, repairs.",
    "stage": "draft: look for a correct kernel; refine: make a correct kernel faster.",
    "cr": "CR (compilation rate): share of tasks with a candidate that compiles.",
    "acc": "Acc (accuracy): share of tasks with a correct kernel.",
    "geomean": "Geometric mean over the solved tasks of the speed of the best kernel relative to the baseline.",
    "gate": "Checks of the verifier in order; the first that fails ends the verification.",
    "gates": {
        "write": "The generator must return a kernel.",
        "screen": "The source must not contain forbidden constructs.",
        "build": "The candidate must compile.",
        "check": "The outputs must match the reference at every size.",
        "sanitize": "A sanitizer must find no invalid memory access.",
        "time": "The verifier measures or estimates the latency.",
    },
    "protocol": "paper or strict: the rules by which the verifier decides correctness and time.",
    "gain": OPPORTUNITY_NOTE,
    "incident": explain_term("incident"),
}
TOTALS: dict[str, str] = {
    "compiled (CR)": TOOLTIPS["cr"],
    "correct (Acc)": TOOLTIPS["acc"],
    "first→best gain": "Latency of the first correct kernel divided by the latency of the best one.",
}


def explain_bottleneck(word: str) -> str:
    """The meaning of a bottleneck word as a sentence; empty for an unknown one."""
    explanation = BOTTLENECK_EXPLANATIONS.get(word, "")
    return f"Limited by: {explanation}." if explanation else ""


def explain_total(label: str) -> str:
    """The meaning of one of the totals of a run; empty if the label explains itself."""
    return str(TOOLTIPS["geomean"]) if label.startswith("speed") else TOTALS.get(label, "")

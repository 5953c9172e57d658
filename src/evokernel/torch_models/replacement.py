"""The record of a kernel in a model. Imports no torch."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(eq=False)
class Replacement:
    """What became of one task of a run in a model."""

    task: str
    operator: str = ""
    """`torch.ops.NAMESPACE.NAME` of the kernel that replaces calls; empty if it replaces none."""
    speed: str = ""
    """The kernel's speed compared with its best baseline, in words."""
    reason: str = ""
    """Why torch computes the call; empty if the operator does."""
    replaced_calls: int = 0
    """Calls that the operator computed so far."""
    torch_calls: Counter[str] = field(default_factory=Counter)
    """Calls with these shapes that torch computed so far all the same, by reason."""

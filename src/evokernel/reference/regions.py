"""Evaluates the reference of a task on boxes of its outputs, at sizes at which no tensor may be held whole.

Inputs are functions of a seed and an element's index, so any box of them can be drawn alone. The operations come from a trace on tensors
without memory. A box of an output demands boxes of operands, down to boxes of the arguments; long reductions run in chunks.
"""

from __future__ import annotations

import numpy as np
import torch

from evokernel.core.records import ScalarArgument, Tensor
from evokernel.reference.module import Reference
from evokernel.reference.region_boxes import Box


class RegionReference:
    """The reference of a task at one size, evaluated on boxes of its outputs; inputs are drawn element by element from a seed."""

    arguments: tuple[Tensor, ...]
    """Names, dtypes and shapes of the inputs, then of the parameters, in the order of the signature."""
    input_count: int
    """How many of the arguments are inputs; the rest are parameters."""
    scalars: tuple[ScalarArgument, ...]
    outputs: tuple[Tensor, ...]
    unsupported_reason: str
    """Why the reference cannot be evaluated on regions at this size; empty if it can."""

    def __init__(self, reference: Reference, seed: int, kind: str = "own", max_bytes: int = 1 << 30) -> None:
        """Trace the reference; allocates nothing but the parameters."""
        raise NotImplementedError

    def draw(self, argument: int, box: Box) -> np.ndarray:
        """Return a box of an argument as the kernel receives it (bfloat16 as uint16). An element has the same value in every box."""
        raise NotImplementedError

    def find_needed(self, output: int, box: Box) -> dict[int, list[Box]]:
        """Return, by argument, the boxes that a box of an output depends on."""
        raise NotImplementedError

    def compute(self, output: int, box: Box) -> tuple[torch.Tensor, torch.Tensor]:
        """Return a box of an output in the reference's own precision, and in float64."""
        raise NotImplementedError

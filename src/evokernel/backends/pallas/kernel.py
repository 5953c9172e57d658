"""A traced program as something to call. Runs in a child that none of the candidate's code ever entered."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evokernel.backends.pallas import lower, program, program_rules
from evokernel.backends.pallas.chips import Chip
from evokernel.backends.pallas.entry import NARROWED
from evokernel.backends.pallas.interpret import Interpreted
from evokernel.core.errors import CandidateError

if TYPE_CHECKING:
    from evokernel.core.protocols import Arguments, Array


LARGEST = "bench"
"""Races are looked for at the other sizes, where that is quick; here only where values may hide one."""


class PallasKernel:
    """The programs of one candidate, one per size."""

    def __init__(self, workdir: Path, chip: Chip) -> None:
        self.programs, self.chip = workdir / "programs", chip
        self.calls: dict[str, list[Any]] = json.loads((workdir / "inspect" / "calls.json").read_text())

    def bind(self, arguments: Arguments) -> Callable[[], None]:
        """The program for these shapes."""
        sizes = self.sizes(arguments)
        size = sizes[0]
        with lower.target(self.chip):
            closed = program.read(self.programs / f"{size}.program")
        interpreted = Interpreted(closed, races=sizes != [LARGEST] or has_copies(closed))

        def call() -> None:
            with lower.target(self.chip):
                results = interpreted.run([narrowed(array) for array in arguments.inputs])
            for array, result in zip(arguments.outputs, results, strict=True):
                array.data[...] = result

        return call

    def sizes(self, arguments: Arguments) -> list[str]:
        """Which of the sizes these arguments are; the one that is timed comes first, so that it is the one that is checked."""
        wanted = [[list(array.data.shape) for array in arguments.inputs], [list(scalar) for scalar in arguments.scalars]]
        found = [size for size, (inputs, scalars, _) in self.calls.items() if [[shape for _, _, shape in inputs], scalars] == wanted]
        if not found:
            raise CandidateError("forbidden", "no program was traced for these shapes")
        return sorted(found, key=lambda size: size != LARGEST)


def has_copies(closed: Any) -> bool:
    """Whether a kernel starts copies itself: one that starts too early is simulated as late as it may be, and gives right values."""
    return any(equation.primitive.name == "dma_start" for equation in program_rules.equations(closed.jaxpr))


def narrowed(array: Array) -> np.ndarray:
    """The data in the type the kernel sees."""
    return array.data.astype(NARROWED[array.dtype]) if array.dtype in NARROWED else array.data

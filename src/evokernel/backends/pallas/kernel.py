"""Runs traced programs in interpret mode, in a process that never executed the candidate's Python code."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evokernel.backends.pallas import lower, program_codec, program_rules
from evokernel.backends.pallas.chips import Chip
from evokernel.backends.pallas.entry_point import NARROWED_DTYPES
from evokernel.backends.pallas.interpret import InterpretedProgram
from evokernel.backends.pallas.parts import PallasParts
from evokernel.core.errors import CandidateError

if TYPE_CHECKING:
    from evokernel.core.backend import Arguments, Array


TIMED_SIZE = "bench"
LARGE_SIZES = {TIMED_SIZE, "laptop"}
"""Race detection runs at the other sizes, where it is fast; at these sizes only if values could hide a race."""


class PallasKernel:
    """The traced programs of one candidate, one per size."""

    def __init__(self, workdir: Path, chip: Chip) -> None:
        self.programs, self.chip = workdir / "programs", chip
        self.calls: dict[str, list[Any]] = json.loads((workdir / "inspect" / "calls.json").read_text())

    def bind(self, arguments: Arguments) -> Callable[[], None]:
        """A function that runs the program for these shapes and writes the outputs."""
        sizes = self.matching_sizes(arguments)
        size = sizes[0]
        with lower.target_chip(self.chip):
            closed = program_codec.read_program(self.programs / f"{size}.program")
        runner = InterpretedProgram(closed, detect_races=not LARGE_SIZES.issuperset(sizes) or starts_copies(closed))

        def call() -> None:
            with lower.target_chip(self.chip):
                results = runner.run([narrow_dtype(array) for array in arguments.inputs])
            for array, result in zip(arguments.outputs, results, strict=True):
                array.data[...] = result

        return call

    def bind_parts(self, arguments: Arguments) -> PallasParts:
        """The program for these shapes, to be run in parts."""
        size = self.matching_sizes(arguments)[0]
        with lower.target_chip(self.chip):
            closed = program_codec.read_program(self.programs / f"{size}.program")
        return PallasParts(closed, arguments, self.chip, detect_races=starts_copies(closed))

    def matching_sizes(self, arguments: Arguments) -> list[str]:
        """The sizes with these shapes and scalars. The timed size comes first, so that the checked program is the timed one."""
        actual = [[list(array.data.shape) for array in arguments.inputs], [list(scalar) for scalar in arguments.scalars]]
        sizes = [size for size, (inputs, scalars, _) in self.calls.items() if [[shape for _, _, shape in inputs], scalars] == actual]
        if not sizes:
            raise CandidateError("forbidden", "the candidate left no traced program for these input shapes")
        return sorted(sizes, key=lambda size: size != TIMED_SIZE)


def starts_copies(closed: Any) -> bool:
    """Whether a kernel starts copies. Interpret mode completes copies late, so a copy that starts too early gives correct values."""
    return any(equation.primitive.name == "dma_start" for equation in program_rules.all_equations(closed.jaxpr))


def narrow_dtype(array: Array) -> np.ndarray:
    """The data in the element type that the kernel receives."""
    return array.data.astype(NARROWED_DTYPES[array.dtype]) if array.dtype in NARROWED_DTYPES else array.data

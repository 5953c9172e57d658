"""Runs a built operator on the simulator through ctypes, in the candidate process."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evokernel.backends.ascendc.arguments import argument_array, scalar_argument, tensor_argument
from evokernel.backends.ascendc.call_arguments import CallArguments
from evokernel.backends.ascendc.parts import MAX_PART_BYTES, LaunchParts  # before the sandbox closes
from evokernel.core.errors import CandidateError

if TYPE_CHECKING:
    from evokernel.core.backend import Arguments

LEVELS = ("fast", "hardware", "strict")


def preload_simulator(library: Path) -> None:
    """Load the library and install its signal handlers. Call this before the process enters the sandbox, which forbids both."""
    ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL).simulator_open()


class AscendcKernel:
    """An operator library, loaded together with the simulator."""

    def __init__(self, workdir: Path, runtime: str, library: str, level: str, chip: str, run_s: float) -> None:
        self.simulator = ctypes.CDLL(str(workdir / runtime), mode=ctypes.RTLD_GLOBAL)
        self.simulator.simulator_error.restype = self.simulator.simulator_report.restype = ctypes.c_char_p
        self.simulator.simulator_level(LEVELS.index(level))
        self.simulator.simulator_budget(ctypes.c_double(run_s))
        if unknown_count := self.simulator.simulator_configure(chip.encode()):
            raise ValueError(f"The simulator does not know {unknown_count} of the chip's settings")
        try:
            self.operator = ctypes.CDLL(str(workdir / library))
        except OSError as error:
            raise CandidateError(
                "symbol", f"the compiled operator cannot be loaded: {str(error).replace(str(workdir) + '/', '')}"
            ) from error
        self.plan = json.loads((workdir / "plan.json").read_text())
        self.simulator.simulator_mark(self.plan.get("mark", "").encode())
        self.keep_alive: list[object] = []

    def bind(self, arguments: Arguments) -> Callable[[], None]:
        """Convert the arguments once; the returned function runs the operator on them."""
        outputs = argument_array([tensor_argument(array) for array in arguments.outputs])
        self.keep_alive += [arguments, outputs]
        count = len(arguments.outputs)
        if self.plan["function"]:
            return self.bind_function(self.plan["function"].encode(), arguments, outputs, count)
        tensors = [tensor_argument(array) for array in arguments.inputs]
        numbers = [scalar_argument(kind, value) for _, kind, value in arguments.scalars]
        inputs, attributes, name = argument_array(tensors), argument_array(numbers), self.plan["op"].encode()
        return lambda: self.raise_for_error(
            self.simulator.simulator_run(name, inputs, len(tensors), attributes, len(numbers), outputs, count)
        )

    def bind_parts(self, arguments: Arguments) -> LaunchParts:
        """Prepare a call that runs in parts: only the blocks of these parts touch the tensors, except those that the call copies."""
        copied = CallArguments(self.plan["call"], arguments).copied_bytes() if self.plan["function"] else 0
        if 2 * copied > MAX_PART_BYTES:
            raise CandidateError(
                "memory", f"the call copies {copied / 2**30:.1f} GiB, which is too much at this size: pass the tensors as they are"
            )
        return LaunchParts(self.simulator, self.bind(arguments), arguments)

    def bind_function(self, function: bytes, arguments: Arguments, outputs: Any, count: int) -> Callable[[], None]:
        """The call of a bound function. Its arguments are resolved before every call, because their values may change."""
        given = CallArguments(self.plan["call"], arguments)

        def call() -> None:
            self.raise_for_error(self.simulator.simulator_call(function, given.resolve(), len(self.plan["call"]), outputs, count))

        return call

    def raise_for_error(self, failed: int) -> None:
        """Raise the simulator's error of a failed call."""
        if failed:
            code, addresses, text = (self.simulator.simulator_error().decode(errors="replace") + "\t\t").split("\t")[:3]
            raise CandidateError("raised", "\t".join(["simulator", code, addresses, text]))

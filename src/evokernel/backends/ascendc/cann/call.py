"""A built operator, alive in a process with a card: the same code in the judge's child and in the worker that is profiled."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from ctypes import c_void_p
from pathlib import Path

from evokernel.backends.ascendc.cann.acl import Operator, Runtime
from evokernel.backends.ascendc.cann.environment import CUSTOM, LIBRARIES, LOG_PATH, LOGS
from evokernel.core.errors import CandidateError, InfraError
from evokernel.core.protocols import Arguments

BUILT = "cann.json"
"""In a build folder: the operator's type, where it was installed, and the variables of a process that runs it."""
LOADED: dict[str, str] = {}
"""Types of operators this process has loaded, and their libraries: one cannot be replaced by another."""


def load(workdir: Path) -> OperatorKernel:
    """What `build` left in a folder. The runtime reads its variables when it starts, so they are set here; its logs go where we are."""
    built = json.loads((workdir / BUILT).read_text())
    logs = Path.cwd() / LOGS
    os.environ.update(needed(built["variables"]) | {LOG_PATH: str(logs)})
    return OperatorKernel(built["op"], Path(built["library"]), Path(built["home"]), logs)


def needed(variables: Mapping[str, str]) -> dict[str, str]:
    """Of a build's variables, those that the runtime reads."""
    return {name: value for name, value in variables.items() if name.startswith("ASCEND_") or name == LIBRARIES}


class OperatorKernel:
    """An operator on the card: every call copies tensors there, runs it, and copies its outputs back."""

    def __init__(self, op: str, library: Path, home: Path, logs: Path) -> None:
        held = LOADED.setdefault(op, str(library))
        if held != str(library):
            raise InfraError(f"this process has another operator called {op} ({CUSTOM} is read once): start one process per candidate")
        self.logs, self.died = logs, ""
        self.runtime = Runtime(home / "lib64")
        self.operator = Operator(self.runtime, library, op)

    def bind(self, arguments: Arguments) -> Callable[[], None]:
        """Memory on the card is taken once; outputs go there, too, so that what a kernel does not write stays as it was."""
        runtime = self.runtime
        tensors = [*arguments.inputs, *arguments.outputs]
        places = [runtime.allocate(tensor.data.nbytes) for tensor in tensors]
        count = len(arguments.inputs)

        def call() -> None:
            self.refuse_dead()
            made: list[c_void_p] = []
            try:
                for tensor, place in zip(tensors, places):
                    runtime.copy_in(place, tensor)
                    made.append(runtime.tensor(tensor, place))
                self.operator.call(made[:count], arguments.scalars, made[count:], self.logs)
                for tensor, place in zip(arguments.outputs, places[count:]):
                    runtime.copy_out(tensor, place, self.logs)
            except CandidateError as error:
                self.died = error.detail
                raise
            finally:
                for tensor_made in made:
                    runtime.destroy(tensor_made)

        return call

    def refuse_dead(self) -> None:
        """After an error on a core nothing that this process asks of the card can be believed."""
        if self.died:
            raise InfraError(f"the card's context is lost after an error, this process has to end: {self.died.splitlines()[0]}")

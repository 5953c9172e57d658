"""Loads a built operator in a process with an NPU: the candidate process, or the worker that the profiler runs."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from ctypes import c_void_p
from pathlib import Path

from evokernel.backends.ascendc.cann.acl import AclnnOperator, NpuRuntime
from evokernel.backends.ascendc.cann.environment import CUSTOM_OPP_VARIABLE, LIBRARY_PATH_VARIABLE, LOG_FOLDER, LOG_PATH_VARIABLE
from evokernel.core.backend import Arguments
from evokernel.core.errors import CandidateError, InfraError

BUILD_RECORD = "cann.json"
"""File in a build folder: the operator type, its library, and the environment variables of a process that runs it."""
LOADED_OPERATORS: dict[str, str] = {}
"""Loaded operator types of this process and their libraries, which cannot be replaced."""


def load_operator(workdir: Path) -> NpuKernel:
    """Load the operator of a build folder. Sets the variables that the runtime reads at its start; logs go to the current folder."""
    record = json.loads((workdir / BUILD_RECORD).read_text())
    logs = Path.cwd() / LOG_FOLDER
    os.environ.update(runtime_variables(record["variables"]) | {LOG_PATH_VARIABLE: str(logs)})
    return NpuKernel(record["op"], Path(record["library"]), Path(record["home"]), logs)


def runtime_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables that the runtime reads, of all variables of a build."""
    return {name: value for name, value in variables.items() if name.startswith("ASCEND_") or name == LIBRARY_PATH_VARIABLE}


class NpuKernel:
    """An operator on the NPU: every call copies the tensors to it, runs the operator, and copies the outputs back."""

    def __init__(self, op: str, library: Path, home: Path, logs: Path) -> None:
        loaded_library = LOADED_OPERATORS.setdefault(op, str(library))
        if loaded_library != str(library):
            raise InfraError(
                f"This process has loaded another operator {op} ({CUSTOM_OPP_VARIABLE} is read once): start one process per candidate"
            )
        self.logs, self.failure = logs, ""
        self.runtime = NpuRuntime(home / "lib64")
        self.operator = AclnnOperator(self.runtime, library, op)

    def bind(self, arguments: Arguments) -> Callable[[], None]:
        """Allocate NPU memory once. Outputs are copied to the NPU too, so that elements the kernel does not write keep their value."""
        runtime = self.runtime
        tensors = [*arguments.inputs, *arguments.outputs]
        places = [runtime.allocate(tensor.data.nbytes) for tensor in tensors]
        count = len(arguments.inputs)

        def call() -> None:
            self.refuse_after_failure()
            handles: list[c_void_p] = []
            try:
                for tensor, place in zip(tensors, places):
                    runtime.copy_in(place, tensor)
                    handles.append(runtime.create_tensor(tensor, place))
                self.operator.call(handles[:count], arguments.scalars, handles[count:], self.logs)
                for tensor, place in zip(arguments.outputs, places[count:]):
                    runtime.copy_out(tensor, place, self.logs)
            except CandidateError as error:
                self.failure = error.detail
                raise
            finally:
                for tensor_made in handles:
                    runtime.destroy_tensor(tensor_made)

        return call

    def refuse_after_failure(self) -> None:
        """Refuse further calls after an error on a core, because this process's NPU context is no longer reliable."""
        if self.failure:
            raise InfraError(f"The NPU context is lost after an error, so this process must end: {self.failure.splitlines()[0]}")

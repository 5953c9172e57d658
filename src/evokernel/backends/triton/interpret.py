"""Runs a candidate with Triton's interpreter in the candidate process, on shared tensors. Slow, and only for checking values.

Import this module after `use_interpreting_copy`.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from triton.runtime import autotuner, interpreter
from triton.runtime.errors import InterpreterError

from evokernel.backends.gpu.torch_guard import TorchGuard
from evokernel.backends.triton import bfloat16, combine, interpreter_speed, libdevice, tf32
from evokernel.backends.triton.launch_check import RecordedLaunches, refuse_other_launches
from evokernel.backends.triton.launch_function import DTYPES, FILE, load_launch_function
from evokernel.backends.triton.memory_access import MemoryChecks
from evokernel.core.errors import CandidateError

if TYPE_CHECKING:
    from evokernel.core.backend import Arguments, Array


class InterpretedKernel:
    """A candidate's launch function whose kernels are interpreted."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self.checks = patch_interpreter()
        self.recorded = RecordedLaunches(programs)
        self.file = str(folder / FILE)
        self.entry = load_launch_function(folder / FILE)

    def bind(self, arguments: Arguments) -> Callable[[], None]:
        tensors = [as_tensor(array) for array in (*arguments.inputs, *arguments.outputs)]
        input_count = len(arguments.inputs)
        numbers = [bool(value) if kind == "bool" else int(value) if kind == "int" else value for _, kind, value in arguments.scalars]
        values = [*tensors[:input_count], *numbers, *tensors[input_count:]]
        recorded_launches = self.recorded.find(arguments)

        def call() -> None:
            values[:input_count] = [tensor.clone() for tensor in tensors[:input_count]]
            names = [array.name for array in (*arguments.inputs, *arguments.outputs)]
            all_tensors = [*values[:input_count], *tensors[input_count:]]
            self.checks.start_call(self.file, dict(zip(names, all_tensors)), input_count)
            with TorchGuard(poison_scratch, zero_tensor, "cpu", copy_tensor), explain_errors(self.file):
                self.entry(*values)
            refuse_other_launches(recorded_launches, self.checks.launches)
            for array, copy, tensor in zip(arguments.inputs, values, tensors):
                if tensor_bytes(copy) != tensor_bytes(tensor):
                    raise CandidateError(
                        "inputs", f"the kernel changed the input `{array.name}`; inputs are read-only, write to outputs and scratch only"
                    )

        return call


@cache
def patch_interpreter() -> MemoryChecks:
    """Patch the interpreter, once per process."""
    interpreter_speed.patch_types()
    bfloat16.patch_interpreter()
    combine.patch_combine()
    libdevice.patch_libdevice()
    tf32.patch_dot()
    checks = MemoryChecks()
    patch_launches(checks)
    autotuner.Autotuner.run = run_first_config
    return checks


def patch_launches(checks: MemoryChecks) -> None:
    """Lets launches use PyTorch, checks their accesses, and prepares Triton's language once per launch instead of at every call of a
    @triton.jit function."""
    execute, patch_language = interpreter.GridExecutor.__call__, interpreter._patch_lang
    prepared = set[int]()

    def patch_once(function: Any) -> Any:
        if id(function.__globals__) in prepared:
            return interpreter._LangPatchScope()
        prepared.add(id(function.__globals__))
        return patch_language(function)

    def execute_unguarded(executor: Any, *args: object, **kwargs: object) -> object:
        prepared.clear()
        with torch.utils._python_dispatch._disable_current_modes():  # the interpreter's own tensor operations are allowed
            checks.start_launch([*args, *kwargs.values()])
            result = execute(executor, *args, **kwargs)
        checks.launches.append((executor.fn.__name__, tuple(interpreter.interpreter_builder.grid_dim)))
        return result

    interpreter._patch_lang = patch_once
    interpreter.GridExecutor.__call__ = execute_unguarded


@contextmanager
def explain_errors(file: str) -> Iterator[None]:
    """Raise the error behind an error of the interpreter, with its line in the candidate's file."""
    try:
        yield
    except InterpreterError as error:
        cause: BaseException = error
        line = 0
        while cause.__cause__ is not None:
            cause = cause.__cause__
            line = ([frame.lineno or 0 for frame in traceback.extract_tb(cause.__traceback__) if frame.filename == file] or [line])[-1]
        if isinstance(cause, CandidateError):
            raise cause from None
        place = f"line {line}: " if line else ""
        if isinstance(cause, NotImplementedError) or (isinstance(cause, AttributeError) and "InterpreterBuilder" in str(cause)):
            raise CandidateError("not_run", f"{place}Triton's interpreter does not support this: {cause}; verify it with a GPU") from error
        raise CandidateError("raised", f"{place}{type(cause).__name__}: {cause}") from error


def run_first_config(tuner: Any, *args: object, **kwargs: object) -> object:
    """Runs the first autotuner configuration: values do not depend on tuning, and the interpreter's times are meaningless."""
    tuner.nargs = dict(zip(tuner.arg_names, args))
    return tuner.fn.run(*args, **kwargs, **tuner.configs[0].all_kwargs())


def as_tensor(array: Array) -> torch.Tensor:
    """Views shared memory as a tensor."""
    data = torch.from_numpy(array.data) if array.data.flags.writeable else torch.frombuffer(array.data, dtype=torch.uint8)
    return data.view(DTYPES[array.dtype]).view(array.data.shape)


def tensor_bytes(tensor: Any) -> bytes:
    """Returns the raw bytes, so that NaN compares equal to itself."""
    return bytes(tensor.contiguous().view(-1).view(torch.uint8).numpy().tobytes()) if tensor.numel() else b""


def poison_scratch(tensor: torch.Tensor, is_zero: bool) -> None:
    """Fills uninitialised scratch with garbage."""
    if not is_zero and tensor.numel():
        with torch.utils._python_dispatch._disable_current_modes():
            tensor.view(-1).view(torch.uint8).fill_(0xFF)


def zero_tensor(tensor: torch.Tensor) -> None:
    with torch.utils._python_dispatch._disable_current_modes():
        tensor.zero_()


def copy_tensor(target: torch.Tensor, source: torch.Tensor) -> None:
    with torch.utils._python_dispatch._disable_current_modes():
        target.copy_(source)

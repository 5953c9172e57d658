"""Runs a candidate with Triton's interpreter, in the child, on the tensors the judge shares with it. Slow, and for values only."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import triton
from triton.runtime import autotuner, interpreter

from evokernel.backends.gpu.torch_guard import Guard
from evokernel.backends.triton import bfloat16
from evokernel.backends.triton.record import DTYPES, FILE, loaded
from evokernel.core.errors import CandidateError

if TYPE_CHECKING:
    from evokernel.core.protocols import Arguments, Array


class InterpretedKernel:
    """The candidate's launch function, with kernels that are interpreted."""

    def __init__(self, folder: Path) -> None:
        triton.knobs.runtime.interpret = True
        bfloat16.mend()
        execute = interpreter.GridExecutor.__call__

        def outside(executor: object, *args: object, **kwargs: object) -> object:
            with torch.utils._python_dispatch._disable_current_modes():  # what it does with tensors is the interpreter's own
                return execute(executor, *args, **kwargs)

        interpreter.GridExecutor.__call__ = outside
        autotuner.Autotuner.run = first_choice
        self.entry = loaded(folder / FILE)

    def bind(self, arguments: Arguments) -> Callable[[], None]:
        tensors = [as_tensor(array) for array in (*arguments.inputs, *arguments.outputs)]
        given = len(arguments.inputs)
        numbers = [bool(value) if kind == "bool" else int(value) if kind == "int" else value for _, kind, value in arguments.scalars]
        values = [*tensors[:given], *numbers, *tensors[given:]]

        def call() -> None:
            values[:given] = [tensor.clone() for tensor in tensors[:given]]
            with Guard(spoiled, cleared, "cpu"):
                self.entry(*values)
            for array, copy, tensor in zip(arguments.inputs, values, tensors):
                if bits(copy) != bits(tensor):
                    raise CandidateError("inputs", f"the kernel changed `{array.name}`: inputs are read only")

        return call


def first_choice(tuner: Any, *args: object, **kwargs: object) -> object:
    """Values do not depend on how a kernel is tuned, and times mean nothing here."""
    tuner.nargs = dict(zip(tuner.arg_names, args))
    return tuner.fn.run(*args, **kwargs, **tuner.configs[0].all_kwargs())


def as_tensor(array: Array) -> torch.Tensor:
    """A view of the shared memory."""
    data = torch.from_numpy(array.data) if array.data.flags.writeable else torch.frombuffer(array.data, dtype=torch.uint8)
    return data.view(DTYPES[array.dtype]).view(array.data.shape)


def bits(tensor: Any) -> bytes:
    """All of it, so that even NaN is equal to itself."""
    return bytes(tensor.contiguous().view(-1).view(torch.uint8).numpy().tobytes()) if tensor.numel() else b""


def spoiled(tensor: torch.Tensor, is_zero: bool) -> None:
    """Scratch that nobody set holds nothing useful."""
    if not is_zero and tensor.numel():
        with torch.utils._python_dispatch._disable_current_modes():
            tensor.view(-1).view(torch.uint8).fill_(0xFF)


def cleared(tensor: torch.Tensor) -> None:
    with torch.utils._python_dispatch._disable_current_modes():
        tensor.zero_()

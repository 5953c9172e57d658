"""The candidate's side: its own code runs here, on shapes, and leaves its program. Nothing this process says is believed."""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import jax
import jax.numpy as jnp
from jax._src.core import JaxprEqn

from evokernel.backends.pallas.chips import Chip
from evokernel.backends.pallas.entry import jax_dtype
from evokernel.backends.pallas.errors import explain
from evokernel.backends.pallas.lower import target
from evokernel.backends.pallas.program import encode
from evokernel.backends.pallas.program_rules import findings, place
from evokernel.core.errors import CandidateError
from evokernel.core.protocols import CallShape

FILE = "kernel.py"


def trace(candidate: Path, calls: Mapping[str, CallShape], into: Path, chip: Chip) -> None:
    """Every size's program, as `into/<size>.program`."""
    with target(chip):
        kernel = loaded(candidate)
        for size, call in calls.items():
            shapes = [jax.ShapeDtypeStruct(shape, jnp.dtype(jax_dtype(dtype))) for _, dtype, shape in call.inputs]
            scalars = [{"int": int, "float": float, "bool": bool}[kind](value) for _, kind, value in call.scalars]
            check_arguments(kernel, [name for name, _, _ in (*call.inputs, *call.scalars)])
            closed = jax.make_jaxpr(lambda *arrays, given=scalars: kernel(*arrays, *given))(*shapes)
            if found := findings(closed):  # for its words, which name lines; what counts is said where the candidate is not
                raise CandidateError("forbidden", "\n".join(found[:5]))
            (into / f"{size}.program").write_bytes(encode(closed))


def loaded(candidate: Path) -> Any:
    """The candidate's `kernel`."""
    files = sorted(candidate.glob("*.py"))
    path = candidate / FILE if candidate / FILE in files or len(files) != 1 else files[0]
    if not path.exists():
        raise CandidateError("no_code", f"write one file, {FILE}, with a function `kernel` in it")
    module = ModuleType("kernel")
    module.__file__ = FILE
    sys.modules[module.__name__] = module  # where dataclasses look for what annotations mean
    exec(compile(path.read_text(), FILE, "exec", dont_inherit=True), module.__dict__)
    if not callable(kernel := module.__dict__.get("kernel")):
        raise CandidateError("symbol", "the file defines no function `kernel`")
    return kernel


def check_arguments(kernel: Any, names: Sequence[str]) -> None:
    """Whether it can be called with the task's arguments, whose names an exception of Python's would not say."""
    try:
        inspect.signature(kernel).bind(*names)
    except TypeError as error:
        raise CandidateError("trace_error", f"`kernel` is called with {len(names)} arguments ({', '.join(names)}): {error}") from error
    except ValueError:
        return  # it has no signature to look at


def explained(error: Exception) -> CandidateError:
    """An exception out of tracing or lowering, with the candidate's line it came from."""
    found = explain(str(error), type(error).__name__)
    where = next((line for frame in innermost_first(error) if (line := line_of(frame))), "")
    return CandidateError(found.reason, f"{where}: {found.detail}") if where and where not in found.detail else found


def innermost_first(error: Exception) -> list[FrameType]:
    return [frame for frame, _ in traceback.walk_tb(error.__traceback__)][::-1]


def line_of(frame: FrameType) -> str:
    """The candidate's line a frame executes, while it is traced, or has in hand, while its operations are lowered one by one."""
    if frame.f_code.co_filename == FILE:
        return f"{FILE}:{frame.f_lineno}"
    operation = frame.f_locals.get("eqn")
    return place(operation) if isinstance(operation, JaxprEqn) else ""

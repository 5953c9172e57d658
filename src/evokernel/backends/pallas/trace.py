"""Traces a candidate: runs its Python code on shapes and writes its program. The verifier trusts no other output of this process."""

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
from evokernel.backends.pallas.entry_point import jax_dtype
from evokernel.backends.pallas.errors import explain_message
from evokernel.backends.pallas.lower import target_chip
from evokernel.backends.pallas.program_codec import encode
from evokernel.backends.pallas.program_rules import collect_findings, source_line
from evokernel.core.backend import CallShape
from evokernel.core.errors import CandidateError

FILE = "kernel.py"


def trace_candidate(candidate: Path, calls: Mapping[str, CallShape], into: Path, chip: Chip) -> None:
    """Traces the program of every size and writes it as `into/<size>.program`."""
    with target_chip(chip):
        kernel = load_kernel(candidate)
        for size, call in calls.items():
            shapes = [jax.ShapeDtypeStruct(shape, jnp.dtype(jax_dtype(dtype))) for _, dtype, shape in call.inputs]
            scalars = [{"int": int, "float": float, "bool": bool}[kind](value) for _, kind, value in call.scalars]
            check_arguments(kernel, [name for name, _, _ in (*call.inputs, *call.scalars)])
            closed = jax.make_jaxpr(lambda *arrays, scalars=scalars: kernel(*arrays, *scalars))(*shapes)
            if findings := collect_findings(closed):  # only for the message, which has line numbers; `inspection` decides
                raise CandidateError("forbidden", "\n".join(findings[:5]))
            (into / f"{size}.program").write_bytes(encode(closed))


def load_kernel(candidate: Path) -> Any:
    """Executes the candidate's file and returns its function `kernel`."""
    files = sorted(candidate.glob("*.py"))
    path = candidate / FILE if candidate / FILE in files or len(files) != 1 else files[0]
    if not path.exists():
        raise CandidateError("no_code", f"the candidate contains no Python file: write one file, {FILE}, that defines a function `kernel`")
    module = ModuleType("kernel")
    module.__file__ = FILE
    sys.modules[module.__name__] = module  # dataclasses resolve annotations through sys.modules
    exec(compile(path.read_text(), FILE, "exec", dont_inherit=True), module.__dict__)
    if not callable(kernel := module.__dict__.get("kernel")):
        raise CandidateError("symbol", "the file does not define a function `kernel`: name the entry point `kernel`")
    return kernel


def check_arguments(kernel: Any, names: Sequence[str]) -> None:
    """Raises CandidateError with the task's argument names if `kernel` cannot be called with them."""
    try:
        inspect.signature(kernel).bind(*names)
    except TypeError as error:
        raise CandidateError(
            "trace_error", f"`kernel` is called with {len(names)} arguments ({', '.join(names)}), but its signature does not match: {error}"
        ) from error
    except ValueError:
        return  # the callable has no signature


def explain_exception(error: Exception) -> CandidateError:
    """The error for an exception during tracing or lowering, with the candidate's line."""
    explanation = explain_message(str(error), type(error).__name__)
    where = next((line for frame in frames_innermost_first(error) if (line := candidate_line(frame))), "")
    if where and where not in explanation.detail:
        return CandidateError(explanation.reason, f"{where}: {explanation.detail}")
    return explanation


def frames_innermost_first(error: Exception) -> list[FrameType]:
    return [frame for frame, _ in traceback.walk_tb(error.__traceback__)][::-1]


def candidate_line(frame: FrameType) -> str:
    """The candidate's line of a stack frame: the line it executes during tracing, or the line of the operation it lowers."""
    if frame.f_code.co_filename == FILE:
        return f"{FILE}:{frame.f_lineno}"
    operation = frame.f_locals.get("eqn")
    return source_line(operation) if isinstance(operation, JaxprEqn) else ""

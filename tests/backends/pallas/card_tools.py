"""Extracts the kernels from the cards of the pallas backend, and traces, compiles, estimates and runs them like the verifier."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr

from evokernel.backends.pallas import compiler
from evokernel.backends.pallas.chips import get_chip
from evokernel.backends.pallas.errors import explain_message
from evokernel.backends.pallas.interpret import InterpretedProgram
from evokernel.backends.pallas.lower import lower_program, target_chip
from evokernel.backends.pallas.program_rules import collect_findings
from evokernel.backends.pallas.schedule import Estimate, estimate_schedule
from evokernel.core.errors import CandidateError

V5E = get_chip("v5e")
REFUSED = re.compile(r'^# Refused \((\w+)\): "(.*)"\n# (.*)\n')
ARGUMENT = re.compile(r"\w+: (\w+)\[([\d, ]*)\]")


def trace(source: str, shapes: Sequence[Any], constants: Mapping[str, object] | None = None) -> ClosedJaxpr:
    """Traces the `kernel` of a file for these shapes and scalars; `constants` replaces constants of the file."""
    for name, value in (constants or {}).items():
        source, count = re.subn(rf"^{name} = [^#\n]*", f"{name} = {value}  ", source, flags=re.MULTILINE)
        assert count == 1, name
    namespace: dict[str, Any] = {"__name__": "kernel"}
    exec(compile(source, "kernel.py", "exec"), namespace)
    arrays = [jax.ShapeDtypeStruct(shape.shape, shape.dtype) for shape in shapes if hasattr(shape, "shape")]
    numbers = [shape for shape in shapes if not hasattr(shape, "shape")]
    with target_chip(V5E):
        return jax.make_jaxpr(lambda *inputs: namespace["kernel"](*inputs, *numbers))(*arrays)


def compile_and_estimate(closed: ClosedJaxpr, folder: Path) -> Estimate:
    """Compiles a program with the real compiler and estimates it; raises CompileError."""
    compiler.compile_program(lower_program(closed, V5E), V5E.topology, folder)
    return estimate_schedule(folder, V5E)


def run(closed: ClosedJaxpr, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The outputs of a program in TPU interpret mode."""
    with target_chip(V5E):
        return InterpretedProgram(closed).run(arrays)


def find_refusal(source: str, shapes: Sequence[Any], folder: Path) -> tuple[str, str]:
    """The reason and message of the step that rejects a file; empty strings if no step does."""
    try:
        closed = trace(source, shapes)
        if findings := collect_findings(closed):
            return "forbidden", "\n".join(findings)
        program = lower_program(closed, V5E)
    except Exception as error:
        return explain_message(str(error), type(error).__name__).reason, f"{type(error).__name__}: {error}"
    try:
        compiler.compile_program(program, V5E.topology, folder)
    except compiler.CompileError as error:
        return explain_message(str(error)).reason, str(error)
    if not (estimate := estimate_schedule(folder, V5E, limit_s=2.0)).is_certified:
        return "no_latency", "; ".join(estimate.notes)
    try:
        results = run(closed, [np.ones(shape.shape, shape.dtype) for shape in shapes])
    except CandidateError as error:
        return error.reason, error.detail
    return ("nan", "NaN") if any(np.isnan(result).any() for result in results) else ("", "")


def parse_refusal(block: str) -> tuple[str, str, list[Any]] | None:
    """Parses the first comment of a fragment: reason, message, and the arguments with which it is rejected."""
    if not (head := REFUSED.match(block)):
        return None
    shapes = [
        jax.ShapeDtypeStruct(tuple(int(size) for size in sizes.split(",") if size.strip()), dtype)
        for dtype, sizes in ARGUMENT.findall(head[3])
    ]
    return head[1], head[2], shapes

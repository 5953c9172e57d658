"""Takes the kernels off the pallas backend's cards and does with them what the judge does."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr

from evokernel.backends.pallas import compiler
from evokernel.backends.pallas.chips import chip
from evokernel.backends.pallas.errors import explain
from evokernel.backends.pallas.interpret import Interpreted
from evokernel.backends.pallas.lower import lower, target
from evokernel.backends.pallas.program_rules import findings
from evokernel.backends.pallas.schedule import Estimate, estimate
from evokernel.core.errors import CandidateError

V5E = chip("v5e")
REFUSED = re.compile(r'^# Refused \((\w+)\): "(.*)"\n# (.*)\n')
ARGUMENT = re.compile(r"\w+: (\w+)\[([\d, ]*)\]")


def traced(source: str, shapes: Sequence[Any], constants: Mapping[str, object] | None = None) -> ClosedJaxpr:
    """The program of the `kernel` in a file for these shapes and numbers; constants of the file may be given other values."""
    for name, value in (constants or {}).items():
        source, found = re.subn(rf"^{name} = [^#\n]*", f"{name} = {value}  ", source, flags=re.MULTILINE)
        assert found == 1, name
    namespace: dict[str, Any] = {"__name__": "kernel"}
    exec(compile(source, "kernel.py", "exec"), namespace)
    arrays = [jax.ShapeDtypeStruct(shape.shape, shape.dtype) for shape in shapes if hasattr(shape, "shape")]
    numbers = [shape for shape in shapes if not hasattr(shape, "shape")]
    with target(V5E):
        return jax.make_jaxpr(lambda *given: namespace["kernel"](*given, *numbers))(*arrays)


def priced(closed: ClosedJaxpr, folder: Path) -> Estimate:
    """Compiled by the real compiler; raises what it says."""
    compiler.compile_program(lower(closed, V5E), V5E.topology, folder)
    return estimate(folder, V5E)


def run(closed: ClosedJaxpr, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """What the program computes in TPU interpret mode."""
    with target(V5E):
        return Interpreted(closed).run(arrays)


def refusal(source: str, shapes: Sequence[Any], folder: Path) -> tuple[str, str]:
    """The reason and the words with which a file is refused, wherever that happens; empty when it is not."""
    try:
        closed = traced(source, shapes)
        if outside := findings(closed):
            return "forbidden", "\n".join(outside)
        program = lower(closed, V5E)
    except Exception as error:
        return explain(str(error), type(error).__name__).reason, f"{type(error).__name__}: {error}"
    try:
        compiler.compile_program(program, V5E.topology, folder)
    except compiler.Refused as error:
        return explain(str(error)).reason, str(error)
    if not (found := estimate(folder, V5E, limit_s=2.0)).certified:
        return "unpriced", "; ".join(found.notes)
    try:
        results = run(closed, [np.ones(shape.shape, shape.dtype) for shape in shapes])
    except CandidateError as error:
        return error.reason, error.detail
    return ("nan", "NaN") if any(np.isnan(result).any() for result in results) else ("", "")


def refused(block: str) -> tuple[str, str, list[Any]] | None:
    """What the head of a fragment says about its refusal: reason, words, and the arguments it is refused with."""
    if not (head := REFUSED.match(block)):
        return None
    shapes = [
        jax.ShapeDtypeStruct(tuple(int(size) for size in sizes.split(",") if size.strip()), dtype)
        for dtype, sizes in ARGUMENT.findall(head[3])
    ]
    return head[1], head[2], shapes

"""Looks at traced programs where none of the candidate's code ever ran, and turns the one to be timed into what the compiler reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evokernel.backends.pallas import lower as lowering
from evokernel.backends.pallas import prefetch_check, program, program_rules, vmem_check
from evokernel.backends.pallas.chips import Chip
from evokernel.backends.pallas.entry import jax_dtype
from evokernel.core.errors import CandidateError
from evokernel.core.protocols import CallShape

BENCH = "bench"


def inspect(programs: Path, calls: Mapping[str, CallShape], into: Path, chip: Chip) -> None:
    """Every size's program must fit its call; what the guard finds is left in `into`."""
    found: list[str] = []
    for size, call in calls.items():
        with lowering.target(chip):
            closed = program.read(programs / f"{size}.program")
            fit(closed, call)
            found = found or program_rules.findings(closed)
            if size == BENCH:
                (into / "tables.json").write_text(json.dumps(prefetch_check.decide(closed)))
    (into / "calls.json").write_text(json.dumps(calls))
    (into / "findings.json").write_text(json.dumps(found))


def lower(programs: Path, into: Path, chip: Chip) -> None:
    """The program at bench size, for the compiler."""
    with lowering.target(chip):
        closed = program.read(programs / f"{BENCH}.program")
    vmem_check.check(closed, chip.vmem_bytes)
    (into / "program.mlir").write_bytes(lowering.lower(closed, chip))


def fit(closed: Any, call: CallShape) -> None:
    """Inputs are as they were given, outputs as they are wanted."""
    given = [(tuple(aval.shape), aval.dtype.name) for aval in closed.in_avals]
    if given != [(shape, jax_dtype(dtype)) for _, dtype, shape in call.inputs]:
        raise CandidateError("forbidden", "the traced program does not take what it was called with")
    if len(closed.out_avals) != len(call.outputs):
        raise CandidateError("shape", f"{len(closed.out_avals)} outputs are returned, {len(call.outputs)} are wanted")
    for aval, (name, dtype, shape) in zip(closed.out_avals, call.outputs):
        if tuple(aval.shape) != shape:
            raise CandidateError("shape", f"output `{name}` has shape {list(aval.shape)}, wanted is {list(shape)}")
        if aval.dtype.name != jax_dtype(dtype):
            raise CandidateError("dtype", f"output `{name}` is {aval.dtype.name}, wanted is {jax_dtype(dtype)}")

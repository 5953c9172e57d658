"""Checks traced programs and lowers the bench-size program for the compiler, in a process that never ran the candidate's Python code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evokernel.backends.pallas import lower as lowering
from evokernel.backends.pallas import prefetch_check, program_codec, program_rules, vmem_check
from evokernel.backends.pallas.chips import Chip
from evokernel.backends.pallas.entry_point import jax_dtype
from evokernel.core.backend import CallShape
from evokernel.core.errors import CandidateError

BENCH = "bench"


def inspect_programs(programs: Path, calls: Mapping[str, CallShape], into: Path, chip: Chip) -> None:
    """Checks that every size's program matches its call, and writes violations of the program rules into `into`."""
    findings: list[str] = []
    for size, call in calls.items():
        with lowering.target_chip(chip):
            closed = program_codec.read_program(programs / f"{size}.program")
            check_signature(closed, call)
            findings = findings or program_rules.collect_findings(closed)
            if size == BENCH:
                (into / "tables.json").write_text(json.dumps(prefetch_check.depends_on_table_values(closed)))
    (into / "calls.json").write_text(json.dumps(calls))
    (into / "findings.json").write_text(json.dumps(findings))


def lower_bench_program(programs: Path, into: Path, chip: Chip) -> None:
    """Writes the bench-size program as StableHLO for the compiler."""
    with lowering.target_chip(chip):
        closed = program_codec.read_program(programs / f"{BENCH}.program")
    vmem_check.check_vmem(closed, chip.vmem_bytes)
    (into / "program.mlir").write_bytes(lowering.lower_program(closed, chip))


def check_signature(closed: Any, call: CallShape) -> None:
    """Raises CandidateError unless the program's inputs and outputs match the call."""
    inputs = [(tuple(aval.shape), aval.dtype.name) for aval in closed.in_avals]
    if inputs != [(shape, jax_dtype(dtype)) for _, dtype, shape in call.inputs]:
        raise CandidateError(
            "forbidden",
            "the inputs of the traced program differ from the arguments of the call: trace `kernel` with the arrays it receives",
        )
    if len(closed.out_avals) != len(call.outputs):
        raise CandidateError("shape", f"number of outputs of `kernel`: {len(closed.out_avals)}, expected: {len(call.outputs)}")
    for aval, (name, dtype, shape) in zip(closed.out_avals, call.outputs):
        if tuple(aval.shape) != shape:
            raise CandidateError("shape", f"output `{name}` has shape {list(aval.shape)}, expected {list(shape)}")
        if aval.dtype.name != jax_dtype(dtype):
            raise CandidateError(
                "dtype", f"output `{name}` has dtype {aval.dtype.name}, expected {jax_dtype(dtype)}: convert it with `.astype`"
            )

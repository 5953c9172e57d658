"""Checks the values of a solution that PyTorch computes in: the verifier draws secret inputs and compares, the solution runs in a sandbox.

Nothing is recorded, sanitized or timed here, so such a solution gets a verdict about its values and no speed.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import numpy as np

from evokernel.app.kernelbench.results import StrictResult
from evokernel.app.kernelbench.solution_client import SolutionReply, SolutionSandbox, run_solution, solution_folder
from evokernel.app.kernelbench.solution_files import Solution
from evokernel.core.memory_limits import memory_shortage
from evokernel.core.records import Task
from evokernel.verifier.cases import Case, Cases
from evokernel.verifier.feedback import describe_difference
from evokernel.verifier.tolerance import UnsuitableInputs

KINDS = ("own", "normal", "wide", "tiny", "own")
"""Kinds of inputs, in order; the last is the first with other values."""
NOTE = "PyTorch operators allowed: values checked, not timed"


def check_values(
    solution: Solution, task: Task, sandbox: SolutionSandbox, timeout_s: float, threads: int
) -> tuple[StrictResult, tuple[str, ...] | None]:
    """Run a solution on inputs that the verifier drew, and compare every element under the strict tolerance."""
    is_device = sandbox.device != "cpu" and not sandbox.problem
    if is_device and (shortage := memory_shortage(task)):
        return StrictResult(verdict="not run", detail=f"the reference needs {shortage}", note=NOTE), None
    size = "bench" if is_device else "small"
    note = NOTE if is_device else f"{NOTE}, on the processor at a small size"
    if not is_device and solution.kind == "cuda":
        return StrictResult(verdict="not run", detail="there is no NVIDIA GPU to run its kernels on", note=note), None
    cases = Cases(task, secrets.randbits(48), threads, is_secret=True)
    try:
        drawn = draw_cases(cases, size)
        with solution_folder() as workdir:
            order = make_order(solution, task, size, drawn, workdir, threads)
            reply = run_solution(order, solution.text, workdir, sandbox if is_device else SolutionSandbox("cpu"), timeout_s)
            return compare_cases(drawn, reply, workdir, note), read_operators(reply.claim)
    finally:
        cases.close()


def draw_cases(cases: Cases, size: str) -> list[Case]:
    """Draw a case of every kind that the operator is defined for."""
    drawn = []
    for number, kind in enumerate(KINDS):
        try:
            case = cases.draw_case(size, number, kind)
            assert case.expected  # computing it may show that the operator is not defined for the inputs
        except UnsuitableInputs:
            continue
        drawn.append(case)
    return drawn


def make_order(solution: Solution, task: Task, size: str, drawn: list[Case], workdir: Path, threads: int) -> dict[str, Any]:
    """Write the inputs of all cases and return the order."""
    for number, case in enumerate(drawn):
        (workdir / f"inputs{number}.bin").write_bytes(b"".join(array.data.tobytes() for array in case.inputs))
    return {
        "mode": "cases",
        "source": task.source,
        "name": f"{task.id}.py",
        "sizes": task.sizes[size],
        "kind": solution.kind,
        "threads": threads,
        "cases": [
            {
                "tensors": [[array.dtype, list(array.data.shape)] for array in case.inputs],
                "scalars": [[kind, value] for _, kind, value in case.scalars],
            }
            for case in drawn
        ],
    }


def compare_cases(drawn: list[Case], reply: SolutionReply, workdir: Path, note: str) -> StrictResult:
    """Compare the outputs of all cases with the reference's."""
    for number, case in enumerate(drawn):
        try:
            data = (workdir / f"outputs{number}.bin").read_bytes()
        except OSError:
            said = str(reply.claim.get("error", ""))[:600] or reply.failure or "the process wrote no output"
            return StrictResult(verdict="failed", gate="check", reason="raised", detail=said, note=note)
        offset = 0
        for expected in case.expected:
            stored = expected.array.data
            if offset + stored.nbytes > len(data):
                detail = f"output `{expected.array.name}` has other sizes or another type than the reference's"
                return StrictResult(verdict="failed", gate="check", reason="mismatch", detail=detail, note=note)
            actual = np.frombuffer(data, stored.dtype, count=stored.size, offset=offset).reshape(stored.shape)
            offset += stored.nbytes
            if difference := expected.find_difference(actual):
                shapes = ", ".join(str(list(array.data.shape)) for array in case.inputs)
                detail = describe_difference(difference, case.size, shapes, case.kind)
                return StrictResult(verdict="failed", gate="check", reason=difference.reason, detail=detail, note=note)
    return StrictResult(verdict="passed", note=note)


def read_operators(claim: dict[str, Any]) -> tuple[str, ...] | None:
    """The operators that a process names."""
    names = claim.get("operators")
    return tuple(str(name)[:60] for name in names[:100]) if isinstance(names, list) else None

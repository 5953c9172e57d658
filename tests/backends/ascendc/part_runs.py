"""Runs kernels completely, dry and in parts, in a process of its own."""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

SECONDS = 300
POISON = -7.0
REPORT_FIELDS = ("cycles", "blocks", "blocks_run", "blocks_dry", "guesses", "is_part", "matches_dry")


def build_parts(files: dict[str, str], signature: Any, workdir: Path, is_quick: bool = True) -> Path:
    """Compile a candidate for the simulator, without optimisation unless the test runs it for long."""
    from quick_builds import quick_builds

    from evokernel.backends.ascendc.build import build
    from evokernel.backends.ascendc.project_parser import parse_project

    project = parse_project(files, signature)
    with quick_builds() if is_quick else nullcontext():
        build(project, workdir)
    plan = {"op": project.op, "function": project.bound_function, "call": project.call_arguments}
    (workdir / "plan.json").write_text(json.dumps(plan))
    return workdir


def call_in_child(workdir: Path, function: str, signature: Any, **options: Any) -> Any:
    """Call one of the functions below with the kernel's arguments, in a child process."""
    tensors = {
        role: [(one.name, one.dtype, one.shape) for one in ones]
        for role, ones in (("inputs", (*signature.inputs, *signature.params)), ("outputs", signature.outputs))
    }
    order = {
        "workdir": str(workdir),
        "function": function,
        "scalars": [tuple(s) for s in scalars_of(signature)],
        **tensors,
        "options": options,
    }
    done = subprocess.run([sys.executable, __file__], input=json.dumps(order), capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, f"{done.stdout[-500:]}\n{done.stderr[-2000:]}"
    return json.loads(done.stdout)


def scalars_of(signature: Any) -> list[tuple[str, str, float]]:
    return [(scalar.name, scalar.kind, scalar.value) for scalar in signature.scalars]


def compare_parts(kernel: Any, arguments: Any, groups: Sequence[int] | None = None) -> dict[str, Any]:
    """The complete run against the dry one, and against all parts (or some), one at a time."""
    import numpy as np

    fill_inputs(arguments)
    whole_call = kernel.bind(arguments)
    poison_outputs(arguments)
    whole_call()
    report, expected = read_report(kernel), [output.data.copy() for output in arguments.outputs]
    poison_outputs(arguments)
    parts = kernel.bind_parts(arguments)
    parts.locate([0.0])
    dry, count = parts.survey_report, parts.part_count
    unequal, outside, covered, part_reports = [], [], [np.zeros(one.data.size, bool) for one in arguments.outputs], []
    for group in range(count) if groups is None else groups:
        positions = [group / (count - 1) if count > 1 else 0.0]
        located = parts.locate(positions)
        poison_outputs(arguments)
        parts.run(positions)
        part_reports.append(read_report(kernel))
        for output, right, ranges, mask in zip(arguments.outputs, expected, located, covered):
            inside = np.zeros(output.data.size, bool)
            for start, stop in ranges:
                inside[start:stop] = True
            mask |= inside
            bits, wanted = (data.reshape(-1).view(f"u{output.data.itemsize}") for data in (output.data, right))
            if (bits[inside] != wanted[inside]).any():
                unequal.append(group)
            if not np.array_equal(output.data.reshape(-1)[~inside], np.full((~inside).sum(), POISON, output.data.dtype)):
                outside.append(group)
    return {
        "whole": report,
        "dry": dry,
        "is_dry_valid": parts.is_dry_valid,
        "count": count,
        "unequal": unequal,
        "outside": outside,
        "is_covered": bool(all(mask.all() for mask in covered)),
        "parts": part_reports,
    }


def locate_parts(kernel: Any, arguments: Any, positions: Sequence[float], runs: bool = True) -> dict[str, Any]:
    """Locate parts of sparse tensors and run them; the error of the candidate, and the memory of this process."""
    from evokernel.core.errors import CandidateError

    parts = kernel.bind_parts(arguments)
    before = peak_kib()
    found: dict[str, Any] = {"error": ["", ""]}
    try:
        found["ranges"] = [list(ranges[:8]) for ranges in parts.locate(positions)]
        found |= {"report": parts.survey_report, "count": parts.part_count, "located_kib": peak_kib() - before}
        for output, ranges in zip(arguments.outputs, parts.locate(positions)):
            for start, stop in ranges:
                output.data.reshape(-1)[start:stop] = POISON
        if runs:
            parts.run(positions)
            found["run_kib"] = peak_kib() - before
            values = [
                output.data.reshape(-1)[start:stop]
                for output, ranges in zip(arguments.outputs, parts.locate(positions))
                for start, stop in ranges
            ]
            found["values"] = sorted({float(value) for part in values for value in (part.min(), part.max())})
    except CandidateError as error:
        found["error"] = [error.reason, error.detail]
    return found


def count_executions(kernel: Any, arguments: Any, positions: Sequence[float]) -> int:
    """How often the kernel is called to locate single parts."""
    parts, executions = kernel.bind_parts(arguments), []
    execute = parts.execute
    parts.execute = lambda *given, **named: (executions.append(given[0]), execute(*given, **named))
    for position in positions:
        parts.locate([position])
    return len(executions)


def hash_part(kernel: Any, arguments: Any, position: float) -> str:
    """A digest of the elements that one part computes from fixed inputs."""
    fill_inputs(arguments)
    parts = kernel.bind_parts(arguments)
    located = parts.locate([position])
    parts.run([position])
    made = [output.data.reshape(-1)[start:stop].tobytes() for output, ranges in zip(arguments.outputs, located) for start, stop in ranges]
    return hashlib.sha256(b"".join(made)).hexdigest()


def survey_launch(kernel: Any, arguments: Any) -> dict[str, Any]:
    """The report of a dry execution."""
    parts = kernel.bind_parts(arguments)
    parts.survey()
    report: dict[str, Any] = parts.survey_report
    return report


def run_launch(kernel: Any, arguments: Any) -> dict[str, Any]:
    """The report of a complete execution."""
    fill_inputs(arguments)
    kernel.bind(arguments)()
    report: dict[str, Any] = json.loads(kernel.simulator.simulator_report())
    return report


def fill_inputs(arguments: Any) -> None:
    import numpy as np

    random = np.random.default_rng(5)
    for one in arguments.inputs:
        one.data[...] = random.standard_normal(one.data.shape).astype(one.data.dtype)


def poison_outputs(arguments: Any) -> None:
    for one in arguments.outputs:
        one.data[...] = POISON


def read_report(kernel: Any) -> dict[str, Any]:
    report = json.loads(kernel.simulator.simulator_report())
    return {name: report[name] for name in REPORT_FIELDS}


def peak_kib() -> int:
    """The peak of this process's resident memory, which includes the touched pages of shared memory."""
    return next(int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))


def sparse_array(dtype: str, shape: Sequence[int]) -> Any:
    """An array in shared memory that exists only where it is touched."""
    import numpy as np

    count = int(np.prod(shape, dtype=np.int64))
    file = os.memfd_create("tensor")
    length = max(4096, count * np.dtype(dtype).itemsize)
    os.ftruncate(file, length)
    return np.frombuffer(mmap.mmap(file, length), dtype, count).reshape(shape)


def serve() -> None:
    """The child process."""
    from evokernel.backends.ascendc import parts
    from evokernel.backends.ascendc.chips import find_chip
    from evokernel.backends.ascendc.loader import AscendcKernel, preload_simulator
    from evokernel.backends.ascendc.parts import LaunchParts
    from evokernel.core.backend import Arguments, Array

    order = json.loads(sys.stdin.read())
    workdir, options = Path(order["workdir"]), order["options"]
    parts.MIN_MEETING_MACS = options.pop("meeting_macs", parts.MIN_MEETING_MACS)
    parts.MIN_MEETING_BYTES = options.pop("meeting_bytes", parts.MIN_MEETING_BYTES)
    preload_simulator(workdir / "libsimulator.so")
    kernel = AscendcKernel(
        workdir,
        "libsimulator.so",
        "operator.so",
        options.pop("level", "strict"),
        find_chip("910B2").runtime_config_text(),
        options.pop("run_s", 15.0),
    )
    survey = LaunchParts.survey

    def survey_and_remember(parts: Any) -> None:
        survey(parts)
        parts.survey_report = read_report(kernel)

    LaunchParts.survey = survey_and_remember  # type: ignore[method-assign]
    tensors = {
        role: tuple(Array(name, dtype, sparse_array(dtype, shape)) for name, dtype, shape in order[role]) for role in ("inputs", "outputs")
    }
    arguments = Arguments(tensors["inputs"], tuple(map(tuple, order["scalars"])), tensors["outputs"])
    result = globals()[order["function"]](kernel, arguments, **options)
    sys.stdout.write(json.dumps(result))


if __name__ == "__main__":
    serve()

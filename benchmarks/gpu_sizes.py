"""Measures verification on a GPU: checks of the size `full` for many tasks with seconds and memory, and the gates of one kernel.

    python benchmarks/gpu_sizes.py [--tasks level1,level2,level3] [--gates] [--limit-s 60] [--total-s 600] [--out FOLDER]

The reference in its own precision takes the kernel's place, so that every task can be checked: inputs are drawn on the device, the
outputs are compared with the reference in float64 on five kinds of inputs, as in the check gate. Device memory is the most that PyTorch
held; host memory is the most that this process held during a task. A task that needs more than `--limit-s` seconds is stopped.

Writes gpu_sizes.jsonl after each task, and the same command continues. `--gates` verifies a kernel for starter/softmax instead, in fresh
processes and in a warm one, and prints the seconds of each gate.
"""

from __future__ import annotations

import argparse
import ast
import json
import signal
import statistics
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evokernel.core.errors import UserError
from evokernel.core.records import Candidate, Job, Task
from evokernel.suites.loader import TaskFile, describe_task, find_task_files
from evokernel.suites.suite_paths import find_full_size

HERE = Path(__file__).parent
KINDS = ("own", "near", "wide", "shifted", "tiny")
LARGEST = 5
"""Tasks that the table of the largest ones lists."""
WARM_ATTEMPTS, PROGRESS_ROWS = 6, 20


class LimitExceeded(Exception):
    """A task took longer than allowed."""


def describe_full(file: TaskFile) -> Task | str:
    """Describe a task at size `full` from shapes; return the reason if that fails.

    Smaller sizes are not derived, which would take seconds for each task. A task whose shapes depend on values is described as usual.
    """
    from evokernel.core.numeric_contract import default_tolerance
    from evokernel.reference.constants import rewrite_constants
    from evokernel.reference.measure import measure_shapes

    try:
        full = find_full_size(file.path) or {}
        source = ast.unparse(ast.parse(file.path.read_text()))
        source = rewrite_constants(source, full) if full else source
        measurement = measure_shapes(source, file.spec, {})
        if measurement is None:
            return describe_task(file, "full")
        tolerance = default_tolerance(measurement.signature)
        sizes: dict[str, dict[str, int]] = {"bench": {}, "laptop": {}}
        signature, work = measurement.signature, measurement.work
        task = Task(id="", family="", source=source, signature=signature, work=work, sizes=sizes, atol=tolerance, rtol=tolerance)
        return task.model_copy(update=file.metadata())
    except UserError as error:
        return str(error)


def make_check(task: Task, device: str, total_bytes: int) -> Any:
    """Return the check of a task whose kernel is the reference itself."""
    import torch

    from evokernel.backends.gpu.device_check import DeviceCheck
    from evokernel.backends.gpu.device_memory import USABLE_SHARE, describe_shortage, plan_memory
    from evokernel.reference.device_reference import DeviceReference
    from evokernel.reference.device_sample import disable_tf32
    from evokernel.reference.module import Reference

    class ReferenceCheck(DeviceCheck):
        """Takes the outputs of the reference in its own precision for those of a kernel."""

        def run_kernel(self, case: Any) -> list[Any]:
            sample = self.draw(case)
            with disable_tf32(), torch.device(device):
                return [tensor for _, tensor in self.reference.reference.run(sample)]

    class NoTensors:
        """The kernel has no tensors of its own."""

        def has_inputs(self, inputs: Any) -> bool:
            return True

    if shortage := describe_shortage(task, total_bytes):
        raise UserError(f"needs {shortage}")
    plan = plan_memory(task)
    reference = Reference(task.source, task.id, task.sizes["bench"])
    room_bytes = int(USABLE_SHARE * total_bytes) - plan.check_bytes
    device_reference = DeviceReference(reference, device, plan.reference_bytes, room_bytes)
    return ReferenceCheck(task, "strict", device_reference, NoTensors(), lambda phase: None, limit_s=1e9)


def measure_task(task: Task, device: str, limit_s: float) -> dict[str, Any]:
    """Check one task; return its seconds, memory and result."""
    import torch

    from evokernel.core.backend import DeviceCase

    is_cuda = device == "cuda"
    total_bytes = torch.cuda.get_device_properties(0).total_memory if is_cuda else 64 << 30
    row: dict[str, Any] = {"task": task.id, "size": task.timed_size, "bytes": task.work.bytes, "flops": task.work.flops}
    reset_host_peak()
    if is_cuda:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    start_s = time.perf_counter()
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        check = make_check(task, device, total_bytes)
        statuses, seconds = [], []
        for number, kind in enumerate(KINDS):
            case_start_s = time.perf_counter()
            result = check.run([DeviceCase(kind, 1000 + number)]).cases[0]
            if is_cuda:
                torch.cuda.synchronize()
            seconds.append(time.perf_counter() - case_start_s)
            statuses.append(f"{result.status} {result.reason}".strip())
        is_verified = statuses[0] == "passed" and not any("failed" in status for status in statuses)
        row |= {"verified": is_verified, "kinds": dict(zip(KINDS, statuses)), "own_s": seconds[0], "split": check.reference.is_split}
        row["note"] = check.note
    except (UserError, RuntimeError, LimitExceeded) as error:
        row |= {"verified": False, "error": f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:300]}"}
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    row["seconds"] = time.perf_counter() - start_s
    row["device_bytes"] = torch.cuda.max_memory_allocated() if is_cuda else None
    row["host_bytes"] = read_host_peak()
    return row


def reset_host_peak() -> None:
    """Let the system count the memory high-water mark of this process anew."""
    Path("/proc/self/clear_refs").write_text("5")


def read_host_peak() -> int:
    """Return the most memory of this process since the last reset, in bytes."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) << 10


def raise_limit(*_: object) -> None:
    """Stop the current task."""
    raise LimitExceeded("the limit for one task")


def iterate_tasks(spec: str, done: set[str]) -> Iterator[tuple[str, Task | str]]:
    """Yield the tasks that are not done, taken from all suites evenly."""
    files = [file for file in find_task_files(spec) if file.id not in done]
    for file in sorted(files, key=lambda file: hash_order(file.id)):
        yield file.id, describe_full(file)


def hash_order(text: str) -> int:
    """Return a number that orders tasks the same way in every run."""
    return zlib.crc32(text.encode())


def measure_sizes(args: argparse.Namespace) -> None:
    """Check all tasks and print the tables."""
    path = args.out / "gpu_sizes.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    signal.signal(signal.SIGALRM, raise_limit)
    start_s = time.monotonic()
    for name, task in iterate_tasks(args.tasks, {row["task"] for row in rows}):
        if time.monotonic() - start_s > args.total_s:
            break
        row = {"task": name, "verified": False, "error": task} if isinstance(task, str) else measure_task(task, args.device, args.limit_s)
        rows.append(row)
        with path.open("a") as file:
            file.write(json.dumps(row) + "\n")
        if not len(rows) % PROGRESS_ROWS:
            print(f"{len(rows)} tasks after {time.monotonic() - start_s:.0f} s", file=sys.stderr, flush=True)
    print_sizes(rows)


def print_sizes(rows: list[dict[str, Any]]) -> None:
    """Print how many tasks were verified by suite, the slowest and largest ones, and the reasons of the others."""
    print("| suite | tasks | verified | median s | worst s | device GB, worst | host GB, worst | in boxes |")
    print("|---|---|---|---|---|---|---|---|")
    for suite in sorted({row["task"].partition("/")[0] for row in rows}):
        own = [row for row in rows if row["task"].startswith(f"{suite}/")]
        good = [row for row in own if row["verified"]]
        seconds = [row["seconds"] for row in good] or [0.0]
        device = max((row["device_bytes"] or 0 for row in good), default=0) / 1e9
        host = max((row["host_bytes"] for row in good), default=0) / 1e9
        split = sum(row["split"] for row in good)
        cells = [
            suite,
            len(own),
            len(good),
            f"{statistics.median(seconds):.2f}",
            f"{max(seconds):.1f}",
            f"{device:.1f}",
            f"{host:.1f}",
            split,
        ]
        print(f"| {' | '.join(map(str, cells))} |")
    print("\nlargest:")
    for row in sorted((row for row in rows if row.get("device_bytes")), key=lambda row: -row["device_bytes"])[:LARGEST]:
        device_gb, host_gb = row["device_bytes"] / 1e9, row["host_bytes"] / 1e9
        print(f"  {row['task']}: {device_gb:.1f} GB on the device, {host_gb:.1f} GB on the host, {row['seconds']:.1f} s")
    print("\nnot verified:")
    for row in rows:
        if not row["verified"]:
            print(f"  {row['task']}: {row.get('error') or row.get('kinds')}")


def measure_gates(args: argparse.Namespace) -> None:
    """Verify a kernel in fresh processes and in a warm one; print the seconds of each gate."""
    for number in range(2):
        start_s = time.perf_counter()
        program = [sys.executable, "-c", "from evokernel.cli.main import main; main()"]
        command = [*program, "verify", str(HERE / "gpu" / "softmax.py"), "--task", "starter/softmax", "--json"]
        text = subprocess.run([*command, "--backend", "triton"], capture_output=True, text=True, check=False).stdout
        seconds = time.perf_counter() - start_s
        outcome_fields = json.loads(text)["outcome"] if text.startswith("{") else {"gates": []}
        gates = {gate["gate"]: round(gate["seconds"], 2) for gate in outcome_fields["gates"]}
        print(f"fresh process {number + 1}: {seconds:.1f} s {gates}", flush=True)
    from evokernel.core.plugins import make_plugin
    from evokernel.verifier import verify

    task = describe_task(find_task_files("starter/softmax")[0])
    for backend, name in (("triton", "softmax.py"), ("cuda", "softmax.cu")):
        file_name, text = make_plugin("backend", backend).file_name, (HERE / "gpu" / name).read_text()
        for profiler in ("never", "ncu"):
            seconds, outcome = [], None
            for number in range(WARM_ATTEMPTS):
                mark = "#" if backend == "triton" else "//"
                candidate = Candidate(backend=backend, files={file_name: f"{text}{mark} {profiler} {number}\n"})
                job = Job(backend=backend, settings={"profiler": profiler}, task=task, candidate=candidate, ignore_cache=True)
                start_s = time.perf_counter()
                outcome = verify(job)
                seconds.append(time.perf_counter() - start_s)
            assert outcome is not None
            gates = {gate.gate: round(gate.seconds, 2) for gate in outcome.gates}
            failure = outcome.failure.detail[:200] if outcome.failure else "passed"
            median_s, all_s = statistics.median(seconds[2:]), [round(one, 2) for one in seconds]
            print(f"warm {backend} {profiler}: median {median_s:.2f} s of {all_s}, last {gates}, {failure}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tasks", default="level1,level2,level3")
    parser.add_argument("--gates", action="store_true")
    parser.add_argument("--limit-s", type=float, default=60.0)
    parser.add_argument("--total-s", type=float, default=600.0)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", type=Path, default=Path())
    args = parser.parse_args()
    (measure_gates if args.gates else measure_sizes)(args)


if __name__ == "__main__":
    main()

"""Measures how many kernels a minute several workers verify on one GPU, and where the time goes.

    python benchmarks/gpu_throughput.py [--rows paper:8,strict:8,strict:1] [--window-s 20] [--limit-s 220] [--out FOLDER]

A row is a protocol and a number of workers, which start anew; each verifies one draft before the window begins. Prints for every row the
attempts per minute, the medians of the gates, the share of the time in which a measurement holds the device, and processor seconds and
threads by kind of process. `--contexts` measures first how long processes take to open the device when several do so at once, alone and
under compute-sanitizer's tools. Writes throughput.json as results arrive.
"""

from __future__ import annotations

import argparse
import fcntl
import itertools
import json
import os
import statistics
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from pathlib import Path
from typing import Any, NamedTuple

from study import abandon, run_main

from evokernel.backends.gpu import sanitizer_run
from evokernel.backends.gpu.tools import find_tool
from evokernel.core.devices import LOCK_FOLDER, open_lock_file
from evokernel.core.records import Candidate, Context, Job, Outcome, Stage, Task
from evokernel.core.state import State
from evokernel.executors.local import LocalExecutor
from evokernel.generators.template_search import TemplateSearch
from evokernel.sandbox import isolated_python
from evokernel.suites.loader import load_tasks

TICKS = os.sysconf("SC_CLK_TCK")
SAMPLE_S, LOCK_SAMPLE_S = 0.25, 0.01
KINDS = (
    ("timing_server", "timing server"),
    ("compile_worker", "torch.compile worker"),
    ("verifier.zygote", "zygote"),
    ("ptxas", "ptxas"),
    ("--tool memcheck", "memcheck"),
    ("--tool racecheck", "racecheck"),
    ("--tool initcheck", "initcheck"),
    ("--tool synccheck", "synccheck"),
    ("gpu.standalone", "program under a tool"),
    ("executors.worker", "worker"),
)
"""What a command line contains, and the kind of process."""
OTHER, FORK, REAPED = "other", "candidate process", "ended between samples"
CONTEXT_COUNTS = (1, 4, 8, 16)


class ProcessSample(NamedTuple):
    """A process at one moment."""

    parent: int
    kind: str
    cpu_s: float
    children_cpu_s: float
    """Of its children that have ended."""
    threads: int


def read_process(pid: int) -> ProcessSample | None:
    """Read a process from /proc; None if it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return None
    fields = text[text.rindex(")") + 2 :].split()
    user, system, child_user, child_system = (int(word) / TICKS for word in fields[11:15])
    kind = next((name for mark, name in KINDS if mark in command), OTHER)
    return ProcessSample(int(fields[1]), kind, user + system, child_user + child_system, int(fields[17]))


def read_descendants() -> dict[int, ProcessSample]:
    """Read all processes below this one; a fork of a zygote is a candidate process."""
    samples = {int(name): sample for name in os.listdir("/proc") if name.isdigit() and (sample := read_process(int(name)))}
    children: dict[int, list[int]] = defaultdict(list)
    for pid, sample in samples.items():
        children[sample.parent].append(pid)
    found: dict[int, ProcessSample] = {}
    queue = list(children[os.getpid()])
    while queue:
        pid = queue.pop()
        queue += children[pid]
        sample, parent = samples[pid], samples.get(samples[pid].parent)
        found[pid] = sample._replace(kind=FORK) if sample.kind == "zygote" and parent and parent.kind == "zygote" else sample
    return found


def read_machine_s() -> tuple[float, float, float]:
    """Return the seconds that all cores together spent in programs, in the kernel, and idle."""
    words = [int(word) / TICKS for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return words[0] + words[1], words[2] + words[5] + words[6], words[3] + words[4]


class Sampler:
    """Samples processor time by kind of process and the device's lock while a window is open."""

    def __enter__(self) -> Sampler:
        self.first: dict[int, ProcessSample] = read_descendants()
        self.last: dict[int, ProcessSample] = dict(self.first)
        self.most: dict[str, tuple[int, int]] = {}
        """By kind: most processes and most threads at one time."""
        self.held, self.looks = 0, 0
        self.start_s, self.machine = time.monotonic(), read_machine_s()
        self.is_over = threading.Event()
        self.threads = [threading.Thread(target=self.sample_processes), threading.Thread(target=self.sample_lock)]
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.is_over.set()
        for thread in self.threads:
            thread.join()
        self.end = read_descendants()
        self.last |= self.end
        self.seconds = time.monotonic() - self.start_s
        self.machine_s = [after - before for before, after in zip(self.machine, read_machine_s())]

    def sample_processes(self) -> None:
        while not self.is_over.wait(SAMPLE_S):
            now = read_descendants()
            self.last |= now
            counts: dict[str, list[int]] = defaultdict(list)
            for sample in now.values():
                counts[sample.kind].append(sample.threads)
            for kind, threads in counts.items():
                most = self.most.get(kind, (0, 0))
                self.most[kind] = (max(most[0], len(threads)), max(most[1], sum(threads)))

    def sample_lock(self) -> None:
        descriptor = open_lock_file(LOCK_FOLDER / "evokernel-gpu0.lock")
        while not self.is_over.wait(LOCK_SAMPLE_S):
            self.looks += 1
            try:
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
                fcntl.flock(descriptor, fcntl.LOCK_UN)
            except OSError:
                self.held += 1
        os.close(descriptor)

    def cpu_by_kind(self) -> dict[str, float]:
        """Return the processor seconds of each kind within the window."""
        totals: dict[str, float] = defaultdict(float)
        reaped_s, sampled_s = 0.0, 0.0
        for pid, sample in self.last.items():
            before = self.first.get(pid)
            own_s = sample.cpu_s - (before.cpu_s if before else 0.0)
            totals[sample.kind] += own_s
            if pid not in self.end:
                sampled_s += sample.cpu_s
            elif before:
                reaped_s += sample.children_cpu_s - before.children_cpu_s
        totals[REAPED] = max(0.0, reaped_s - sampled_s)
        return {kind: round(seconds, 2) for kind, seconds in sorted(totals.items(), key=lambda item: -item[1]) if seconds >= 0.05}


def write_drafts(tasks: list[Task]) -> Iterator[tuple[Task, Candidate]]:
    """Yield first drafts of these tasks in turn, without end; each text is new."""
    drafts = [(task, TemplateSearch("triton").write(State(task=task), Context(stage=Stage.DRAFT)).candidate) for task in tasks]
    drafts = [(task, candidate) for task, candidate in drafts if candidate.files]
    for number in itertools.count():
        task, candidate = drafts[number % len(drafts)]
        yield task, candidate.model_copy(update={"files": {name: f"{text}# {number}\n" for name, text in candidate.files.items()}})


def make_job(draft: tuple[Task, Candidate], protocol: str, args: argparse.Namespace) -> Job:
    """Return the verification of a draft as a run of an experiment does it."""
    return Job(
        backend="triton", settings={"profiler": "never"}, task=draft[0], candidate=draft[1], protocol=protocol, baselines=("eager",),
        timing_s=args.timing_s, timeout_s=60,
    )  # fmt: skip


def measure_row(protocol: str, workers: int, drafts: Iterator[tuple[Task, Candidate]], args: argparse.Namespace) -> dict[str, Any]:
    """Verify drafts for one window with this many workers."""
    executor = LocalExecutor(workers, max_attempts=1)
    start_s = time.monotonic()
    warm_up = [executor.submit(make_job(next(drafts), protocol, args)) for _ in range(workers)]
    wait(warm_up)
    warm_up_s = time.monotonic() - start_s
    outcomes: list[Outcome] = []
    failures: list[str] = []
    running: set[Future[Outcome]] = {executor.submit(make_job(next(drafts), protocol, args)) for _ in range(2 * workers)}
    with Sampler() as sampler:
        while (left_s := sampler.start_s + args.window_s - time.monotonic()) > 0:
            done, running = wait(running, timeout=left_s, return_when=FIRST_COMPLETED)
            for future in done:
                if error := future.exception():
                    failures.append(str(error)[-300:])
                else:
                    outcomes.append(future.result())
                running.add(executor.submit(make_job(next(drafts), protocol, args)))
    abandon(running, executor)
    executor.close()
    gates: dict[str, list[float]] = defaultdict(list)
    for outcome in outcomes:
        for gate in outcome.gates:
            gates[gate.gate].append(gate.seconds)
    failures += [f"{one.failure.gate} {one.failure.reason}: {one.failure.detail[:200]}" for one in outcomes if one.failure]
    failures += [str(error)[-300:] for future in warm_up if not future.cancelled() and (error := future.exception())]
    return {
        "protocol": protocol, "workers": workers, "warm_up_s": round(warm_up_s, 1), "window_s": round(sampler.seconds, 1),
        "attempts": len(outcomes), "per_minute": round(60 * len(outcomes) / sampler.seconds, 1),
        "gates_s": {name: [round(statistics.median(values), 3), round(max(values), 2)] for name, values in gates.items()},
        "device_held": round(sampler.held / max(1, sampler.looks), 3),
        "cores_busy": [round(seconds / sampler.seconds, 2) for seconds in sampler.machine_s],
        "cpu_s": sampler.cpu_by_kind(), "most": sampler.most, "failures": failures[:5], "failed": len(failures), "gpu": read_gpu(),
    }  # fmt: skip


def read_gpu() -> str:
    """Return what nvidia-smi reports, or nothing without it."""
    try:
        query = ["nvidia-smi", "--query-gpu=utilization.gpu,memory.used,clocks.sm,persistence_mode", "--format=csv,noheader"]
        return subprocess.run(query, capture_output=True, text=True, timeout=20, check=False).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


def print_row(row: dict[str, Any]) -> None:
    """Print a row in a few lines."""
    count = max(1, row["attempts"])
    gates = ", ".join(f"{name} {median:.2f} s (most {most:.1f})" for name, (median, most) in row["gates_s"].items())
    busy = "{:.1f} cores in programs, {:.1f} in the kernel, {:.1f} idle".format(*row["cores_busy"])
    print(f"\n{row['protocol']}, {row['workers']} workers: {row['per_minute']} attempts a minute; first draft after {row['warm_up_s']} s")
    print(f"  gates: {gates}")
    print(f"  {busy}; device held {row['device_held']:.0%}; GPU: {row['gpu']}")
    for kind, seconds in row["cpu_s"].items():
        processes, threads = row["most"].get(kind, (0, 0))
        print(f"  {kind}: {seconds / count:.2f} s an attempt, at most {processes} processes, {threads} threads")
    for failure in row["failures"]:
        print(f"  failed ({row['failed']}): {failure}")


def measure_contexts(limit_s: float) -> list[dict[str, Any]]:
    """Return how long processes take to open the device and end, several at once, alone and under compute-sanitizer."""
    tool = find_tool("compute-sanitizer")
    tools = sanitizer_run.list_commands(tool)[:2] if tool else []
    commands = {"alone": (), **{f"under {name}": command for (name, *_), command in zip(sanitizer_run.TOOLS, tools)}}
    program = isolated_python.isolated_command("evokernel.backends.gpu.standalone", "main", "0")
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    rows: list[dict[str, Any]] = []
    start_s = time.monotonic()
    for (name, prefix), count in itertools.product(commands.items(), CONTEXT_COUNTS):
        if time.monotonic() - start_s > limit_s:
            break
        before, used = time.monotonic(), os.times()
        processes = [subprocess.Popen([*prefix, *program], **quiet) for _ in range(count)]  # type: ignore[call-overload]
        failed = sum(process.wait() != 0 for process in processes)
        seconds, now = time.monotonic() - before, os.times()
        user_s, system_s = now.children_user - used.children_user, now.children_system - used.children_system
        rows.append({"name": name, "count": count, "seconds": seconds, "user_s": user_s, "system_s": system_s, "failed": failed})
        each = f"each {user_s / count:.2f} s in programs, {system_s / count:.2f} s in the kernel"
        print(f"{count} processes open the device {name}: {seconds:.2f} s, {each}, {failed} failed")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", default="paper:8,strict:8,strict:1,paper:12,strict:4,strict:12")
    parser.add_argument("--tasks", default="starter", help="tasks whose drafts are verified [starter]")
    parser.add_argument("--timing-s", type=float, default=0.1)
    parser.add_argument("--window-s", type=float, default=20)
    parser.add_argument("--limit-s", type=float, default=220, help="seconds after which no row begins [220]")
    parser.add_argument("--contexts", action="store_true", help="measure first how long processes take to open the device")
    parser.add_argument("--out", type=Path, default=Path("runs/gpu-throughput"))
    args = parser.parse_args()
    start_s = time.monotonic()
    args.out.mkdir(parents=True, exist_ok=True)
    figures: dict[str, Any] = {"cores": os.cpu_count(), "contexts": measure_contexts(40) if args.contexts else [], "rows": []}
    drafts = write_drafts(load_tasks(args.tasks))
    for text in args.rows.split(","):
        if time.monotonic() - start_s > args.limit_s:
            break
        protocol, _, workers = text.partition(":")
        figures["rows"].append(measure_row(protocol, int(workers), drafts, args))
        print_row(figures["rows"][-1])
        (args.out / "throughput.json").write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    raise SystemExit(run_main(main))

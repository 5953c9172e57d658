"""Measures verification at the size `full`: seconds, CPU seconds, memory, and the share of the outputs that was run and compared.

    python benchmarks/full_sizes.py --backends pallas,ascendc --tasks starter,level1,level2 [--once] [--count 40] [--every K] [--retry]

The templates of `template_search` write a kernel for each task, with the options that its prior names to try first. It is verified
twice, the second time with another seed and a comment more, so that nothing but the baseline and the traces of the reference is cached,
as in the later attempts of a run. CPU seconds are those of the worker and all its processes; they mean something on a busy machine, too.
Memory is the largest sum over the worker and its processes, with shared pages counted once.

`--once` verifies each kernel only once, without the XLA baseline: what a later verification takes when the baseline is cached, and the
traces of the reference are not. It takes less than half as long.

Tasks come in a fixed order in which every suite is spread evenly, so that the first rows are a fair sample: `--count 40` ends after 40
tasks, `--every 5` takes every fifth. Writes full_sizes.json after each task. After an interruption the same command continues; `--retry`
repeats tasks without a verified kernel. The last lines are the table: medians, worst values, and failures by reason.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import threading
import time
from collections import Counter
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from evokernel.app import factory
from evokernel.core.config import RunConfig, resolve_config
from evokernel.core.errors import InfraError, UserError
from evokernel.core.plugins import make_plugin
from evokernel.core.records import Candidate, Outcome, Task
from evokernel.engine.jobs import make_job
from evokernel.executors.local import LocalExecutor
from evokernel.generators.template_search.decisions import Choice
from evokernel.generators.template_search.dialects import get_dialect
from evokernel.generators.template_search.graph import UnsupportedPattern
from evokernel.generators.template_search.option_model import OptionModel
from evokernel.generators.template_search.prior import get_prior
from evokernel.generators.template_search.search import DecisionSearch
from evokernel.generators.template_search.search_space import DecisionGroup, build_search_space
from evokernel.suites.loader import TaskFile, find_task_files

POLL_S, POLL_PAUSES = 0.3, 30
"""How often memory is read, and how many times longer than a reading the pause must be: the kernel walks all pages for it."""
ONCE_SETTINGS = {"pallas": ("backend.baseline=false",)}
"""The settings of a backend that leave out what later verifications find in the cache."""
Preferences = dict[str, tuple[str, ...]]
VARIANTS: dict[str, tuple[Preferences, ...]] = {
    "pallas": (
        {},
        {"algorithm": ("chunks", "shifts"), "rows": ("8", "12")},
        {"rows": ("8", "32"), "chunk": ("128",), "algorithm": ("lanes", "taps")},
        {"view": ("nest",), "algorithm": ("chunks",), "rows": ("8", "1")},
        {"rows": ("512", "256"), "cols": ("512",), "algorithm": ("shift",)},
    ),
    "ascendc": (
        {}, {"tile": ("2048",), "algorithm": ("chunks",)}, {"tile": ("512",), "depth": ("1",), "rows": ("1",)},
        {"unit": ("vector",), "tile": ("2048",), "reduce": ("halves",)}, {"unit": ("vector",), "tile": ("512",), "staging": ("barrier",)},
    ),
}  # fmt: skip
"""Options in place of those that the prior names to try first; tried in order until a kernel is correct."""


class Worker:
    """One verification worker, whose time and memory are measured together with those of its processes."""

    def __init__(self, config: RunConfig) -> None:
        self.config, self.backend = config, config.plugin_name("backend")
        self.executor = LocalExecutor(workers=1, max_attempts=1)

    def list_processes(self) -> list[int]:
        """Return the worker's process and those that it started."""
        process = self.executor.workers[0].process
        return [process.pid, *list_descendants(process.pid)] if process else []

    def measure(self, task: Task, candidate: Candidate, seed: int, deadline_s: float) -> Measurement:
        """Verify a candidate without the cache of outcomes. Raises FutureTimeout after killing the worker if it takes too long."""
        job = make_job(self.config, task, candidate, seed=seed).model_copy(update={"ignore_cache": True})
        cpu_s, start_s, monitor = sum(map(read_cpu_s, self.list_processes())), time.monotonic(), MemoryMonitor(self)
        monitor.start()
        future = self.executor.submit(job)
        try:
            outcome = future.result(max(0.0, deadline_s - time.monotonic()))
        except FutureTimeout:
            for pid in self.list_processes():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            future.exception()
            raise
        finally:
            monitor.is_done.set()
        return Measurement(outcome, time.monotonic() - start_s, sum(map(read_cpu_s, self.list_processes())) - cpu_s, monitor.peak_bytes)


class Measurement(NamedTuple):
    """An outcome, and what the verification took."""

    outcome: Outcome
    wall_s: float
    cpu_s: float
    memory_bytes: int


class MemoryMonitor(threading.Thread):
    """Records the largest memory of a worker and its processes."""

    def __init__(self, worker: Worker) -> None:
        super().__init__(daemon=True)
        self.worker, self.peak_bytes, self.is_done = worker, 0, threading.Event()

    def run(self) -> None:
        pause_s = POLL_S
        while not self.is_done.wait(pause_s):
            start_s = time.thread_time()
            self.peak_bytes = max(self.peak_bytes, sum(map(proportional_bytes, self.worker.list_processes())))
            pause_s = max(POLL_S, POLL_PAUSES * (time.thread_time() - start_s))


def list_descendants(pid: int) -> list[int]:
    """Return the processes that a process started, directly or through others."""
    children = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children += [int(child) for child in task.read_text().split()]
        except OSError:
            continue
    return [*children, *(one for child in children for one in list_descendants(child))]


def proportional_bytes(pid: int) -> int:
    """Return the memory of a process; a page that several processes share counts in parts."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in text.splitlines() if line.startswith("Pss:")), 0)


def read_cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process and of the children that have ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def measure_task(file: TaskFile, worker: Worker, limit_s: float, once: bool) -> dict[str, Any]:
    """Verify kernels for one task until one passes; return its figures, or the reason of the last failure."""
    config, deadline_s = worker.config, time.monotonic() + limit_s
    row: dict[str, Any] = {"backend": worker.backend, "task": file.id, "is_feasible": False, "reason": "no kernel"}
    try:
        task = next(task for task in factory.load_sized_tasks(config, file.id) if task.id == file.id)
        for variant in VARIANTS[worker.backend]:
            candidate = write_kernel(task, worker.backend, variant)
            first = later = worker.measure(task, candidate, config.seed, deadline_s)
            if first.outcome.feasible and not once:
                later = worker.measure(task, add_comment(candidate), config.seed + 1, deadline_s)
            row |= make_row(None if once else first, later)
            if later.outcome.feasible:
                break
    except UnsupportedPattern as error:
        row["reason"] = f"no template: {error}"
    except FutureTimeout:
        row["reason"] = f"time limit: {limit_s:.0f} s; before: {row['reason']}"
    except (UserError, InfraError) as error:
        row["reason"] = f"refused: {error}"
    return row


def make_row(first: Measurement | None, later: Measurement) -> dict[str, Any]:
    """Return the figures of a later verification, and of a first one if it was measured, or the reason of the failure."""
    outcome, failure = later.outcome, later.outcome.failure
    return {
        "is_feasible": outcome.feasible,
        "reason": f"{failure.gate}: {failure.reason}: {failure.detail[:300]}" if failure else "",
        "seconds": {gate.gate: gate.seconds for gate in outcome.gates},
        "first_s": first.wall_s if first else None,
        "first_cpu_s": first.cpu_s if first else None,
        "total_s": later.wall_s,
        "cpu_s": later.cpu_s,
        "load": os.getloadavg()[0],
        "memory_bytes": later.memory_bytes,
        "run_share": outcome.run_share,
        "compared_share": outcome.compared_share,
        "latency_us": outcome.latency_us,
        "roofline_us": outcome.profile.figures.get("roofline_us") if outcome.profile else None,
    }


def add_comment(candidate: Candidate) -> Candidate:
    """Return the same kernel with another checksum."""
    sign = "#" if candidate.backend == "pallas" else "//"
    return Candidate(backend=candidate.backend, files={name: f"{text}\n{sign} again\n" for name, text in candidate.files.items()})


def write_kernel(task: Task, backend: str, variant: Preferences) -> Candidate:
    """Return a kernel from the templates: the options to try first, with those of a variant in their place."""
    dialect, space = get_dialect(backend), build_search_space(task, backend)
    search = DecisionSearch(space, OptionModel([]), Random(0), 1.0, get_prior("expert", dialect.folder))

    def choose_options(group: DecisionGroup) -> Choice:
        options = {(d.name, o) for d in group.decisions for o in d.options}
        preferred = {name: [o for o in names if (name, o) in options] for name, names in variant.items()}
        return {name: names[0] for name, names in preferred.items() if names}

    source = space.render_kernel(search.complete(choose_options, prefers_start=True))
    return Candidate(backend=backend, files={make_plugin("backend", backend).file_name: source})


def describe_row(row: dict[str, Any]) -> str:
    """Return a row as a line."""
    label = f"{row['backend']:8} {row['task']:44}"
    if not row["is_feasible"]:
        return f"{label} {row['reason'][:160]!r}"
    gates = ", ".join(f"{gate} {seconds:.1f}" for gate, seconds in row["seconds"].items() if seconds >= 0.05)
    return f"{label} {row['total_s']:6.1f} s, {row['cpu_s']:6.1f} s of CPU, {row['memory_bytes'] / 1e9:5.2f} GB  ({gates})"


def summarize(backend: str, rows: list[dict[str, Any]]) -> str:
    """Return the table of a backend: medians and worst values of the verified tasks, and the reasons of failures."""
    good = [row for row in rows if row["is_feasible"]]
    lines = [
        f"\n{backend}: {len(good)} of {len(rows)} tasks have a kernel that was verified\n",
        "| figure | median | best | worst |",
        "|---|---|---|---|",
    ]
    for label, key, unit, scale, is_cost in (
        ("later verification", "total_s", " s", 1, True),
        ("later verification, CPU", "cpu_s", " s", 1, True),
        ("first verification", "first_s", " s", 1, True),
        ("first verification, CPU", "first_cpu_s", " s", 1, True),
        ("peak memory", "memory_bytes", " GB", 1e-9, True),
        ("share of the outputs run", "run_share", " %", 100, False),
        ("share of the outputs compared", "compared_share", " %", 100, False),
    ):
        values = sorted((row[key] * scale for row in good if row[key] is not None), reverse=not is_cost)
        cells = (statistics.median(values), values[0], values[-1]) if values else ()
        lines.append(f"| {label} | " + (" | ".join(f"{value:.3g}{unit}" for value in cells) or "not reported | |") + " |")
    reasons = Counter(":".join(row["reason"].split(":")[:2])[:100] for row in rows if not row["is_feasible"])
    failures = [f"| {reason} | {count} |" for reason, count in reasons.most_common()]
    return "\n".join([*lines, *(["", "| reason of failure | tasks |", "|---|---|", *failures] if failures else [])])


def order_tasks(tasks: str) -> list[TaskFile]:
    """Return task files in a fixed order in which those of every suite are spread evenly."""
    files = find_task_files(tasks)
    Random(0).shuffle(files)
    suite_sizes, numbers, places = Counter(file.id.partition("/")[0] for file in files), Counter[str](), {}
    for file in files:
        suite = file.id.partition("/")[0]
        places[file.id] = (numbers[suite] + 0.5) / suite_sizes[suite]
        numbers[suite] += 1
    return sorted(files, key=lambda file: places[file.id])


class RowFile:
    """The measured rows by backend and task, in a JSON file that is complete at any moment."""

    def __init__(self, path: Path) -> None:
        self.path = path
        rows: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
        self.rows = {(row["backend"], row["task"]): row for row in rows}

    def add(self, row: dict[str, Any]) -> None:
        """Add or replace the row of a task."""
        self.rows[row["backend"], row["task"]] = row
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps(list(self.rows.values()), indent=1))
        part.replace(self.path)

    def is_done(self, backend: str, task: str, is_retry: bool) -> bool:
        """Whether a task need not be measured."""
        row = self.rows.get((backend, task))
        return row is not None and (row["is_feasible"] or not is_retry)


def parse_arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backends", default="pallas,ascendc")
    parser.add_argument("--tasks", default="starter")
    parser.add_argument("--count", type=int, help="how many tasks; all if left out")
    parser.add_argument("--every", type=int, default=1, metavar="K", help="take every K-th task of the order")
    parser.add_argument("--limit", type=float, default=300, help="seconds for all kernels of one task")
    parser.add_argument("--once", action="store_true", help="one verification of each kernel, without the XLA baseline")
    parser.add_argument("--retry", action="store_true", help="repeat tasks without a verified kernel")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--out", type=Path, default=Path("full-sizes"))
    args = parser.parse_args()
    if args.every < 1:
        parser.error("--every must be at least 1")
    return args


def main() -> None:
    args = parse_arguments()
    args.out.mkdir(parents=True, exist_ok=True)
    results = RowFile(args.out / "full_sizes.json")
    backends = args.backends.split(",")
    files = order_tasks(args.tasks)[:: args.every][: args.count]
    settings = {backend: [*args.set, *ONCE_SETTINGS.get(backend, ())] if args.once else args.set for backend in backends}
    workers = [Worker(resolve_config(None, settings[backend], backend=backend, size="full", workers=1)) for backend in backends]
    try:
        for file, worker in ((file, worker) for file in files for worker in workers):
            if not results.is_done(worker.backend, file.id, args.retry):
                results.add(row := measure_task(file, worker, args.limit, args.once))
                print(describe_row(row), flush=True)
    except KeyboardInterrupt:
        print("interrupted; the same command continues")
    finally:
        for worker in workers:
            worker.executor.close()
    for backend in backends:
        print(summarize(backend, [row for (name, _), row in results.rows.items() if name == backend]))


if __name__ == "__main__":
    main()

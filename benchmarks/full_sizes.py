"""Measures verification at the size `full`: seconds, memory, and the share of the outputs that was run and compared.

    python benchmarks/full_sizes.py --backend pallas --tasks starter,level1,level2 [--every 1] [--out FOLDER]

The templates of `template_search` write a kernel for each task, with the options that its prior names to try first. It is verified
twice, the second time with another seed and a comment more, so that nothing but the baseline and the traces of the reference is cached,
as in the later attempts of a run. `--every 3` takes every third task. Memory is the largest sum over the worker and its processes, with
shared pages counted once. Writes full_sizes.json after each task, and the same command continues.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import threading
from pathlib import Path
from random import Random
from typing import Any

from evokernel.app import factory
from evokernel.core.config import RunConfig, resolve_config
from evokernel.core.errors import InfraError, UserError
from evokernel.core.plugins import make_plugin
from evokernel.core.protocols import Executor
from evokernel.core.records import Candidate, Outcome, Task
from evokernel.engine.jobs import make_job
from evokernel.generators.template_search.decisions import Choice
from evokernel.generators.template_search.dialects import get_dialect
from evokernel.generators.template_search.graph import UnsupportedPattern
from evokernel.generators.template_search.option_model import OptionModel
from evokernel.generators.template_search.prior import get_prior
from evokernel.generators.template_search.search import DecisionSearch
from evokernel.generators.template_search.search_space import DecisionGroup, build_search_space
from evokernel.tasks.loader import TaskFile, find_task_files

POLL_S = 0.3
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


class MemoryMonitor(threading.Thread):
    """Records the largest memory of this process's descendants."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak_bytes, self.is_done = 0, threading.Event()

    def run(self) -> None:
        while not self.is_done.wait(POLL_S):
            self.peak_bytes = max(self.peak_bytes, sum(map(proportional_bytes, list_descendants(os.getpid()))))


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


def measure_task(file: TaskFile, config: RunConfig, executor: Executor) -> dict[str, Any]:
    """Verify kernels for one task until one passes; return its figures, or the reason of the last failure."""
    (task,) = factory.load_sized_tasks(config, file.id)
    row: dict[str, Any] = {"task": file.id, "is_feasible": False, "reason": "no kernel"}
    for variant in VARIANTS[config.plugin_name("backend")]:
        try:
            candidate = write_kernel(task, config.plugin_name("backend"), variant)
        except UnsupportedPattern as error:
            return {**row, "reason": f"no template: {error}"}
        monitor = MemoryMonitor()
        monitor.start()
        try:
            first = verify(config, task, candidate, config.seed, executor)
            monitor.peak_bytes = 0
            outcome = verify(config, task, add_comment(candidate), config.seed + 1, executor) if first.feasible else first
        except (UserError, InfraError) as error:
            return {**row, "reason": str(error)}
        finally:
            monitor.is_done.set()
        row = make_row(task, outcome, monitor.peak_bytes) | {"first_s": sum(gate.seconds for gate in first.gates)}
        if outcome.feasible:
            break
    return row


def verify(config: RunConfig, task: Task, candidate: Candidate, seed: int, executor: Executor) -> Outcome:
    """Verify a candidate without the cache of outcomes."""
    job = make_job(config, task, candidate, seed=seed)
    return executor.submit(job.model_copy(update={"ignore_cache": True})).result()


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


def make_row(task: Task, outcome: Outcome, memory_bytes: int) -> dict[str, Any]:
    """Return the figures of a verification, or the reason of the failure."""
    failure = outcome.failure
    return {
        "task": task.id,
        "is_feasible": outcome.feasible,
        "reason": f"{failure.gate}: {failure.reason}: {failure.detail[:300]}" if failure else "",
        "seconds": {gate.gate: gate.seconds for gate in outcome.gates},
        "total_s": sum(gate.seconds for gate in outcome.gates),
        "memory_bytes": memory_bytes,
        "run_share": outcome.run_share,
        "compared_share": outcome.compared_share,
        "latency_us": outcome.latency_us,
        "roofline_us": outcome.profile.figures.get("roofline_us") if outcome.profile else None,
    }


def describe_row(row: dict[str, Any]) -> str:
    """Return a row as a line."""
    if not row["is_feasible"]:
        return f"{row['task']:44} {row['reason'][:160]!r}"
    gates = ", ".join(f"{gate} {seconds:.1f}" for gate, seconds in row["seconds"].items() if seconds >= 0.05)
    return f"{row['task']:44} {row['total_s']:6.1f} s {row['memory_bytes'] / 1e9:5.2f} GB  ({gates})"


def summarize(rows: list[dict[str, Any]]) -> str:
    """Return the table's last lines: counts, medians and worst values."""
    good = [row for row in rows if row["is_feasible"]]
    lines = [f"{len(good)} of {len(rows)} tasks have a kernel that was verified"]
    for label, key, unit, scale in (
        ("first verification", "first_s", "s", 1),
        ("later ones", "total_s", "s", 1),
        ("memory", "memory_bytes", "GB", 1e-9),
        ("run", "run_share", "", 1),
    ):
        values = sorted(row[key] * scale for row in good if row[key] is not None)
        if values:
            lines.append(f"{label}: median {statistics.median(values):.3g} {unit}, least {values[0]:.3g}, most {values[-1]:.3g}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", choices=tuple(VARIANTS), default="pallas")
    parser.add_argument("--tasks", default="starter")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--out", type=Path, default=Path("full-sizes"))
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / "full_sizes.json"
    rows: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
    config = resolve_config(None, args.set, backend=args.backend, size="full", workers=1)
    executor: Executor = factory.make_part(config, "executor")
    for file in find_task_files(args.tasks)[:: args.every]:
        if file.id in {row["task"] for row in rows}:
            continue
        rows.append(row := measure_task(file, config, executor))
        path.write_text(json.dumps(rows, indent=1))
        print(describe_row(row), flush=True)
    executor.close()
    print(summarize(rows))


if __name__ == "__main__":
    main()

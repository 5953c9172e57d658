"""Exports one kernel of any backend, and runs the tests of an export in a process of their own."""

import subprocess
import sys
from pathlib import Path

import sample_run

from evokernel.core.records import Candidate
from evokernel.reports.export import ExportedKernel, export_kernels
from evokernel.suites.loader import load_tasks


def export_kernel(folder: Path, task_file: Path, backend: str, files: dict[str, str]) -> ExportedKernel:
    """Export a kernel for the only task of a file, as if a run had found it."""
    [task] = load_tasks(str(task_file))
    outcome = sample_run.passed_outcome(10.0).model_copy(update={"protocol": "strict"})
    attempt = sample_run.make_attempt(task, 0, outcome, candidate=Candidate(backend=backend, files=files))
    run = sample_run.write_run(folder / "run", [task], [attempt], backend={"name": backend})
    [kernel] = export_kernels(run, run.attempts(), folder / "out").kernels
    return kernel


def run_tests(folder: Path, *options: str) -> str:
    """Return the output of pytest for an exported folder."""
    command = [sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", *options, str(folder)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600).stdout

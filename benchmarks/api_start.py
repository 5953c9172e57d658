"""How long a fresh process takes from `import evokernel` to the start of its first verification: the figure for notebooks.

`./dev exec python benchmarks/api_start.py` starts several processes and prints the median and the range, for a task that the cache knows
and for one that it does not, whose reference PyTorch has to run first; and what `import torch` alone takes.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import evokernel.backends.cpp

SAMPLES = Path(evokernel.backends.cpp.__file__).parent / "samples"
PROCESSES = 3
PROGRAM = """
import json, sys, time
start = time.perf_counter()
import evokernel as ek
imported = time.perf_counter()
task = ek.task(sys.argv[1])
repr(task)
loaded = time.perf_counter()
gates = []
result = ek.verify(open(sys.argv[2]).read(), task, backend="cpp", settings={"clock": "synthetic"}, ignore_cache=True,
                   on_gate=lambda gate, _: gates.append((time.perf_counter(), time.process_time())))
assert result.correct, result.detail
times = {"import": imported, "task": loaded, "first gate": gates[0][0], "result": time.perf_counter()}
print(json.dumps({step: at - start for step, at in times.items()} | {"processor time until the first gate": gates[0][1]}))
"""
IMPORT_PROGRAM = """
import json, time
start = time.perf_counter()
import torch
print(json.dumps({"import": time.perf_counter() - start, "processor time": time.process_time()}))
"""


def measure(task: Path) -> dict[str, float]:
    """Verify a kernel in a new process and return the seconds until each step."""
    return run_program(PROGRAM, str(task), str(SAMPLES / "good" / "kernel.cpp"))


def run_program(program: str, *arguments: str) -> dict[str, float]:
    """Run a program in a new process and return the figures that it prints."""
    command = [sys.executable, "-c", program, *arguments]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return json.loads(output.splitlines()[-1])


def main() -> None:
    """Print the figures of known and of new tasks, and those of PyTorch's import."""
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        for label in ("known task", "new task", "torch"):
            figures: dict[str, list[float]] = {}
            for number in range(PROCESSES):
                path = Path(folder) / "mine.py"
                is_new = label == "new task"
                path.write_text((SAMPLES / "task.py").read_text() + (f"# {folder} {number}\n" if is_new else ""))
                if label == "known task" and not number:
                    measure(path)  # fills the cache
                for step, seconds in (run_program(IMPORT_PROGRAM) if label == "torch" else measure(path)).items():
                    figures.setdefault(step, []).append(seconds)
            for step, seconds in figures.items():
                print(f"{label}, {step}: median {statistics.median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f})")
    print(f"load at the start {load:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()

"""The cost of the sandbox: the start of a candidate process, and a compilation, with no layer, with one more at a time, and with all."""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from statistics import median

from evokernel.backends.cpp.abi import standard_includes
from evokernel.backends.cpp.build import FLAGS
from evokernel.backends.native import toolchain
from evokernel.core.backend import Backend
from evokernel.core.plugins import make_plugin
from evokernel.core.records import Candidate, Job
from evokernel.sandbox import layers
from evokernel.suites.loader import load_tasks
from evokernel.verifier.candidate_process import CandidateProcess
from evokernel.verifier.shared_buffers import Arena

MEMORY_BYTES = 8 << 30


def start_ms(name: str, backend: Backend, job: Job) -> float:
    """Measure the start of a candidate process until it waits for its first command."""
    with tempfile.TemporaryDirectory() as work, closing(Arena(1 << 20, 1 << 20, 0)) as arena:
        start_s = time.perf_counter()
        with closing(CandidateProcess(job, backend, Path(work), arena, 1, MEMORY_BYTES)) as process:
            process.wait_ready()
            return 1e3 * (time.perf_counter() - start_s)


def compile_ms(path: str, headers: str | None) -> float:
    """Measure the compilation of a one-line kernel with the headers of any kernel."""
    with tempfile.TemporaryDirectory() as work:
        (Path(work) / "kernel.cpp").write_text('extern "C" void kernel(float *out) { out[0] = 1; }\n')
        include_flags = ["-include", headers] if headers else []
        start_s = time.perf_counter()
        result = toolchain.run_compiler(path, [*FLAGS, *include_flags, "kernel.cpp", "-o", "kernel.so"], Path(work), 60)
        assert result.code == 0, result.text
        return 1e3 * (time.perf_counter() - start_s)


def timed_actions() -> dict[str, Callable[[], float]]:
    """Return the actions to time, by name. Each returns its duration in ms."""
    task = load_tasks("starter/softmax")[0]
    starters: dict[str, Callable[[], float]] = {}
    for name in ("cpp", "pallas"):
        backend = make_plugin("backend", name)
        if backend.unavailable_reason():
            continue
        job = Job(backend=name, task=task, candidate=Candidate(backend=name, files={"kernel": ""}))
        starters[f"candidate process of {name}"] = lambda name=name, backend=backend, job=job: start_ms(name, backend, job)  # type: ignore[misc]
    if path := toolchain.find_compiler(""):
        headers = toolchain.precompiled(path, FLAGS, standard_includes())
        starters["compilation"] = lambda: compile_ms(path, headers)
    return starters


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=20)
    repeats = parser.parse_args().repeats
    names = [layer.name for layer in layers.list_layers() if layer.is_active]
    steps = {"none": names} | {("+ " if index else "") + name: names[index + 1 :] for index, name in enumerate(names)}
    times_by_kind: dict[str, dict[str, list[float]]] = {kind: {step: [] for step in steps} for kind in timed_actions()}
    actions = timed_actions()
    for round_ in range(repeats + 1):  # in turn, so that other load affects all alike; the first round only warms up
        for step, off in steps.items():
            os.environ[layers.VARIABLE] = ",".join(off)
            for kind, action in actions.items():
                elapsed_ms = action()
                if round_:
                    times_by_kind[kind][step].append(elapsed_ms)
    print("| layers | " + " | ".join(f"{kind}, ms | ratio to none" for kind in times_by_kind) + " |")
    print("|---|" + "---|---|" * len(times_by_kind))
    for step in steps:
        cells = []
        for kind in times_by_kind:
            ratio = median(one / none for one, none in zip(times_by_kind[kind][step], times_by_kind[kind]["none"], strict=True))
            cells.append(f"{median(times_by_kind[kind][step]):.1f} | {ratio:.2f}")
        print(f"| {step} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()

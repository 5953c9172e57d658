"""What the jail costs: the start of a process for a candidate, and a compile, with no layer, with one more at a time, and with all."""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from statistics import median

from evokernel.backends.cpp.abi import includes
from evokernel.backends.cpp.build import FLAGS
from evokernel.backends.native import toolchain
from evokernel.core.plugins import make_plugin
from evokernel.core.protocols import Backend
from evokernel.core.records import Candidate, Job
from evokernel.sandbox import layers
from evokernel.tasks.loader import load
from evokernel.verify.candidate_process import CandidateProcess
from evokernel.verify.shared_buffers import Arena

MEMORY_BYTES = 8 << 30


def start_ms(name: str, backend: Backend, job: Job) -> float:
    """From nothing to a child that waits for its first command."""
    with tempfile.TemporaryDirectory() as work, closing(Arena(1 << 20, 1 << 20, 0)) as arena:
        began = time.perf_counter()
        with closing(CandidateProcess(job, backend, Path(work), arena, 1, MEMORY_BYTES)) as child:
            child.wait_ready()
            return 1e3 * (time.perf_counter() - began)


def compile_ms(path: str, headers: str | None) -> float:
    """A kernel of one line, with the headers of any kernel."""
    with tempfile.TemporaryDirectory() as work:
        (Path(work) / "kernel.cpp").write_text('extern "C" void kernel(float *out) { out[0] = 1; }\n')
        included = ["-include", headers] if headers else []
        began = time.perf_counter()
        done = toolchain.compile(path, [*FLAGS, *included, "kernel.cpp", "-o", "kernel.so"], Path(work), 60)
        assert done.code == 0, done.text
        return 1e3 * (time.perf_counter() - began)


def kinds() -> dict[str, Callable[[], float]]:
    """What is started, by name."""
    task = load("starter/softmax")[0]
    found: dict[str, Callable[[], float]] = {}
    for name in ("cpp", "pallas"):
        backend = make_plugin("backend", name)
        if backend.missing():
            continue
        job = Job(backend=name, task=task, candidate=Candidate(backend=name, files={"kernel": ""}))
        found[f"child of {name}"] = lambda name=name, backend=backend, job=job: start_ms(name, backend, job)  # type: ignore[misc]
    if path := toolchain.find(""):
        headers = toolchain.precompiled(path, FLAGS, includes())
        found["compile"] = lambda: compile_ms(path, headers)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=20)
    repeats = parser.parse_args().repeats
    names = [layer.name for layer in layers.layers() if layer.holds]
    steps = {"none": names} | {("+ " if index else "") + name: names[index + 1 :] for index, name in enumerate(names)}
    measured: dict[str, dict[str, list[float]]] = {kind: {step: [] for step in steps} for kind in kinds()}
    acts = kinds()
    for round_ in range(repeats + 1):  # in turn, so that whatever else the machine does hits all alike; the first round only warms up
        for step, off in steps.items():
            os.environ[layers.VARIABLE] = ",".join(off)
            for kind, act in acts.items():
                taken = act()
                if round_:
                    measured[kind][step].append(taken)
    print("| layers | " + " | ".join(f"{kind}, ms | over none" for kind in measured) + " |")
    print("|---|" + "---|---|" * len(measured))
    for step in steps:
        cells = []
        for kind in measured:
            ratio = median(one / none for one, none in zip(measured[kind][step], measured[kind]["none"], strict=True))
            cells.append(f"{median(measured[kind][step]):.1f} | {ratio:.2f}")
        print(f"| {step} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()

"""The GPU backends on a GPU: what judging costs, how far kernels are from the device's ceilings, and how well ratios repeat.

    python benchmarks/gpu.py [--only throughput,inline,ceilings,ratio] [--out FILE]

Prints tables; needs a GPU, nvcc, Triton and PyTorch for the GPU. `inline` compiles one PyTorch extension, which takes a minute.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

from evokernel.backends.gpu import timing_client
from evokernel.backends.gpu.latency import timed
from evokernel.core.plugins import make_plugin
from evokernel.core.records import Candidate, Job
from evokernel.tasks.loader import load
from evokernel.verify import gates, verify
from evokernel.verify.trial import Trial

HERE = Path(__file__).parent / "gpu"
REPEATS, ATTEMPTS = 20, 12


def candidate(backend: str, name: str, note: str = "") -> Candidate:
    file = HERE / name
    mark = "//" if backend == "cuda" else "#"
    return Candidate(backend=backend, files={make_plugin("backend", backend).file: f"{file.read_text()}{mark} {note}\n"})


@contextmanager
def built(backend: str, task, name: str):
    """A candidate's recorded programs."""
    with tempfile.TemporaryDirectory() as folder:
        made = make_plugin("backend", backend)
        with Trial(Job(backend=backend, task=task, candidate=candidate(backend, name)), made, Path(folder)) as trial:
            gates.screen(trial)
            gates.build(trial)
            yield made, Path(folder) / "programs"


def throughput() -> dict:
    """Attempts per minute of one judge, once it is warm, by protocol and with or without the profiler."""
    found = {}
    task = load("starter/softmax")[0]
    for backend, file in (("cuda", "softmax.cu"), ("triton", "softmax.py")):
        for protocol, profiler in (("paper", "never"), ("strict", "never"), ("strict", "ncu")):
            spent, gates_s = [], {}
            for number in range(ATTEMPTS):
                job = Job(
                    backend=backend,
                    settings={"profiler": profiler},
                    task=task,
                    candidate=candidate(backend, file, f"{protocol} {profiler} {number}"),
                    protocol=protocol,
                    ignore_cache=True,
                )
                began = time.perf_counter()
                outcome = verify(job)
                spent.append(time.perf_counter() - began)
                assert outcome.feasible, outcome.failure
                gates_s = {gate.gate: gate.seconds for gate in outcome.gates}
            middle = statistics.median(spent[2:])
            found[f"{backend} {protocol}{' ncu' if profiler == 'ncu' else ''}"] = {
                "s": middle,
                "per_minute": 60 / middle,
                "gates_s": gates_s,
            }
    return found


def inline() -> dict:
    """What compiling the same kernel as a PyTorch inline extension takes."""
    from torch.utils.cpp_extension import load_inline

    source = (HERE / "softmax.cu").read_text().partition('extern "C"')[0]
    wrapper = """
torch::Tensor run(torch::Tensor x) {
  auto out = torch::empty_like(x);
  softmax<<<x.size(0), 256>>>(x.data_ptr<float>(), out.data_ptr<float>(), x.size(1));
  return out;
}
"""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        load_inline(
            name=f"softmax_{int(began)}",
            cpp_sources="torch::Tensor run(torch::Tensor x);",
            cuda_sources=f"#include <cstdint>\n{source}{wrapper}",
            functions=["run"],
            build_directory=folder,
        )
    return {"s": time.perf_counter() - began}


def ceilings() -> dict:
    """Two kernels against what the device was measured to do."""
    found = {}
    for backend, task, file in (("cuda", "scale.py", "scale.cu"), ("triton", "product.py", "product_kernel.py")):
        loaded = load(str(HERE / task))[0]
        with built(backend, loaded, file) as (made, programs):
            one = timed(loaded, programs, None, made.number, made.device, ("eager",), 1.0)
        figures = one.profile.figures
        latency = sorted(one.samples_us)[len(one.samples_us) // 4]
        base = sorted(one.baseline_us["eager"])[len(one.samples_us) // 4]
        names = ("achieved_gbs", "ceiling_gbs", "achieved_gflops", "ceiling_gflops", "memory_share", "compute_share", "warm_us")
        found[file] = {"us": latency, "eager_us": base, **{name: figures[name] for name in names}}
    found["measured"] = timing_client.ceilings_of(0, made.device)
    return found


def ratio() -> dict:
    """A kernel held against itself, again and again: how far from 1 the middle ratio lies."""
    found = {}
    for backend, spec, file in (
        ("cuda", "starter/softmax", "softmax.cu"),
        ("triton", "starter/softmax", "softmax.py"),
        ("cuda", str(HERE / "scale.py"), "scale.cu"),
    ):
        task = load(spec)[0]
        with built(backend, task, file) as (made, programs):
            own, eager = [], []
            for _ in range(REPEATS):
                one = timed(task, programs, programs, made.number, made.device, ("eager",), 0.5)
                own.append(statistics.median(other / mine for mine, other in zip(one.samples_us, one.incumbent_us)))
                eager.append(statistics.median(other / mine for mine, other in zip(one.samples_us, one.baseline_us["eager"])))
        spread = {"lowest": min(own), "highest": max(own), "middle": statistics.median(own)}
        found[f"{backend} {Path(spec).stem}"] = spread | {"eager_lowest": min(eager), "eager_highest": max(eager)}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="throughput,inline,ceilings,ratio")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found = {}
    for name in options.only.split(","):
        found[name] = globals()[name]()
        print(name, json.dumps(found[name], indent=1), flush=True)
        if options.out:
            options.out.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()

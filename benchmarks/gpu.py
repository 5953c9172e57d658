"""Measures the GPU backends on a GPU: the cost of verification, kernels compared with the device's ceilings, and how well ratios repeat.

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
from evokernel.backends.gpu.latency import measure_on_device
from evokernel.core.plugins import make_plugin
from evokernel.core.records import Candidate, Job
from evokernel.suites.loader import load_tasks
from evokernel.verifier import verify
from evokernel.verifier.evaluators import open_trial

HERE = Path(__file__).parent / "gpu"
REPEATS, ATTEMPTS = 20, 12


def make_candidate(backend: str, name: str, note: str = "") -> Candidate:
    file = HERE / name
    mark = "//" if backend == "cuda" else "#"
    return Candidate(backend=backend, files={make_plugin("backend", backend).file: f"{file.read_text()}{mark} {note}\n"})


@contextmanager
def build_programs(backend: str, task, name: str):
    """Build a candidate; yield the backend and the folder of its recorded programs."""
    with tempfile.TemporaryDirectory() as folder:
        plugin = make_plugin("backend", backend)
        with open_trial(Job(backend=backend, task=task, candidate=make_candidate(backend, name)), plugin, Path(folder)) as trial:
            trial.evaluator.screen(trial)
            trial.evaluator.build(trial)
            yield plugin, Path(folder) / "programs"


def measure_throughput() -> dict:
    """Return the attempts per minute of one process after a warm-up, by protocol and with or without the profiler."""
    results = {}
    task = load_tasks("starter/softmax")[0]
    for backend, file in (("cuda", "softmax.cu"), ("triton", "softmax.py")):
        for protocol, profiler in (("paper", "never"), ("strict", "never"), ("strict", "ncu")):
            seconds, gates_s = [], {}
            for number in range(ATTEMPTS):
                job = Job(
                    backend=backend,
                    settings={"profiler": profiler},
                    task=task,
                    candidate=make_candidate(backend, file, f"{protocol} {profiler} {number}"),
                    protocol=protocol,
                    ignore_cache=True,
                )
                start_s = time.perf_counter()
                outcome = verify(job)
                seconds.append(time.perf_counter() - start_s)
                assert outcome.feasible, outcome.failure
                gates_s = {gate.gate: gate.seconds for gate in outcome.gates}
            median_s = statistics.median(seconds[2:])
            results[f"{backend} {protocol}{' ncu' if profiler == 'ncu' else ''}"] = {
                "s": median_s,
                "per_minute": 60 / median_s,
                "gates_s": gates_s,
            }
    return results


def measure_inline_extension() -> dict:
    """Return the seconds for compiling the same kernel as a PyTorch inline extension."""
    from torch.utils.cpp_extension import load_inline

    source = (HERE / "softmax.cu").read_text().partition('extern "C"')[0]
    wrapper = """
torch::Tensor run(torch::Tensor x) {
  auto out = torch::empty_like(x);
  softmax<<<x.size(0), 256>>>(x.data_ptr<float>(), out.data_ptr<float>(), x.size(1));
  return out;
}
"""
    start_s = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        load_inline(
            name=f"softmax_{int(start_s)}",
            cpp_sources="torch::Tensor run(torch::Tensor x);",
            cuda_sources=f"#include <cstdint>\n{source}{wrapper}",
            functions=["run"],
            build_directory=folder,
        )
    return {"s": time.perf_counter() - start_s}


def compare_with_ceilings() -> dict:
    """Compare two kernels with the measured ceilings of the device."""
    results = {}
    for backend, task_file, file in (("cuda", "scale.py", "scale.cu"), ("triton", "product.py", "product_kernel.py")):
        task = load_tasks(str(HERE / task_file))[0]
        with build_programs(backend, task, file) as (plugin, programs):
            one = measure_on_device(task, programs, None, plugin.number, plugin.device, ("eager",), 1.0)
        figures = one.profile.figures
        latency = sorted(one.samples_us)[len(one.samples_us) // 4]
        base = sorted(one.baseline_us["eager"])[len(one.samples_us) // 4]
        names = ("achieved_gbs", "ceiling_gbs", "achieved_gflops", "ceiling_gflops", "memory_share", "compute_share", "warm_us")
        results[file] = {"us": latency, "eager_us": base, **{name: figures[name] for name in names}}
    results["measured"] = timing_client.load_or_measure_ceilings(0, plugin.device)
    return results


def measure_ratio() -> dict:
    """Compare a kernel with itself many times; return the range of the median ratios, which should be 1."""
    results = {}
    for backend, spec, file in (
        ("cuda", "starter/softmax", "softmax.cu"),
        ("triton", "starter/softmax", "softmax.py"),
        ("cuda", str(HERE / "scale.py"), "scale.cu"),
    ):
        task = load_tasks(spec)[0]
        with build_programs(backend, task, file) as (plugin, programs):
            own, eager = [], []
            for _ in range(REPEATS):
                one = measure_on_device(task, programs, programs, plugin.number, plugin.device, ("eager",), 0.5)
                own.append(statistics.median(other / mine for mine, other in zip(one.samples_us, one.incumbent_us)))
                eager.append(statistics.median(other / mine for mine, other in zip(one.samples_us, one.baseline_us["eager"])))
        spread = {"lowest": min(own), "highest": max(own), "median": statistics.median(own)}
        results[f"{backend} {Path(spec).stem}"] = spread | {"eager_lowest": min(eager), "eager_highest": max(eager)}
    return results


MEASUREMENTS = {
    "throughput": measure_throughput,
    "inline": measure_inline_extension,
    "ceilings": compare_with_ceilings,
    "ratio": measure_ratio,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="throughput,inline,ceilings,ratio")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    results = {}
    for name in options.only.split(","):
        results[name] = MEASUREMENTS[name]()
        print(name, json.dumps(results[name], indent=1), flush=True)
        if options.out:
            options.out.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()

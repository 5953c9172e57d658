"""How well the latency of a launch is known without executing it: from a dry execution, and from sampled blocks, against a complete run.

    python benchmarks/ascendc_extrapolation.py [--only layernorm,add] [--per-wave 4]

The kernels are those of the template search for the starter tasks, with safe decisions, and the kernels of `ascendc_costs`, at sizes that
the simulator executes completely. A sample has the first and the last block of every wave and random blocks between them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

HERE = Path(__file__).parent
RUN_S = 300.0
DECISIONS = {
    "blocks": "cores", "staging": "queue", "depth": "2", "release": "free", "tile": "2048", "tail": "pad", "share": "even",
    "temps": "reuse", "algorithm": "whole", "rows": "fill", "hoist": "once", "keep": "kept", "reduce": "level", "store": "copy",
    "split": "partials", "divide": "reciprocal", "tanh": "exp", "through": "bind", "index": "bits", "shift": "max", "unit": "cube",
    "part": "64", "edge": "tail", "block": "4", "columns": "64", "ktile": "64", "accumulate": "axpy", "banks": "apart", "fuse": "all",
}  # fmt: skip
OTHER_DECISIONS = {"cumsum": {"algorithm": "serial"}, "max_pool": {"across": "scalar"}}
STARTER_TASKS = (
    *("argmax", "batched_matmul", "cross_entropy", "cumsum", "embedding", "gelu", "layernorm", "linear_gelu", "matmul"),
    *("max_pool", "rmsnorm", "scale_shift", "softmax", "sum_rows"),
)


class Launch(NamedTuple):
    """A kernel of `ascendc_costs` with its attributes."""

    name: str
    kernel: str
    dtype: str
    inputs: tuple[tuple[int, ...], ...]
    output: tuple[int, ...]
    attributes: Mapping[str, int]


ADD = {"blocks": 48, "tile": 4096, "buffers": 2, "scalar": 0, "bypass": 0, "pad": 0, "skew": 0}
ROWS = {"blocks": 0, "columns": 2048, "buffers": 2, "form": 0}
PRODUCT = {"blocks": 20, "m": 0, "n": 0, "k": 512, "singleM": 128, "singleN": 128, "baseM": 64, "baseN": 64, "baseK": 64, "bulk": 0}
LAUNCHES = (
    Launch("add, 48 blocks", "add", "float16", ((2048, 2048),) * 2, (2048, 2048), ADD),
    Launch("add, 1000 blocks of unequal length", "add", "float16", ((2048, 2047),) * 2, (2048, 2047), ADD | {"blocks": 1000}),
    Launch("add, single elements", "add", "float16", ((512, 512),) * 2, (512, 512), ADD | {"scalar": 1}),
    Launch("mish, 100 blocks", "mish", "float32", ((4194304,),), (4194304,), {"blocks": 100, "tile": 2048, "buffers": 2}),
    Launch("softmax by rows, 130 blocks", "rows", "float32", ((1000, 2048),), (1000, 2048), ROWS | {"blocks": 130, "form": 0}),
    Launch("sum from memory, 60 blocks", "rows", "float32", ((600, 2048),), (600, 8), ROWS | {"blocks": 60, "form": 4}),
    Launch("product, 35 blocks", "matmul", "float16", ((640, 512), (896, 512)), (640, 896), PRODUCT | {"blocks": 35, "m": 640, "n": 896}),
    Launch("product, 20 blocks", "matmul", "float16", ((500, 512), (600, 512)), (500, 600), PRODUCT | {"blocks": 20, "m": 500, "n": 600}),
)  # fmt: skip


class Comparison(NamedTuple):
    """The estimates for one kernel."""

    name: str
    complete: dict[str, Any]
    dry: dict[str, Any]
    sampled: dict[str, Any]

    def error_of(self, report: Mapping[str, Any]) -> float:
        """Relative error of the latency."""
        return float(report["us"] / self.complete["us"] - 1)


def describe_tensors(tensors: Collection[Any]) -> list[tuple[str, str, tuple[int, ...]]]:
    return [(tensor.name, tensor.dtype, tensor.shape) for tensor in tensors]


def build_task(name: str, workdir: Path) -> dict[str, Any]:
    """Write and compile the template's kernel for a starter task; returns its arguments."""
    from evokernel.backends.ascendc.backend import AscendcBackend
    from evokernel.core.records import Candidate
    from evokernel.generators.template_search.option_model import OptionModel
    from evokernel.generators.template_search.search import DecisionSearch
    from evokernel.generators.template_search.search_space import build_search_space
    from evokernel.suites.loader import load_tasks

    task = load_tasks(f"starter/{name}")[0]
    space = build_search_space(task, "ascendc")
    search = DecisionSearch(space, OptionModel([]), Random(0), 1.0)
    text = space.render_kernel(search.complete(lambda group: DECISIONS | OTHER_DECISIONS.get(name, {})))
    AscendcBackend(toolchain="simulator").build(task, Candidate(backend="ascendc", files={"kernel.asc": text}), workdir)
    signature = task.signature
    return {
        "inputs": describe_tensors((*signature.inputs, *signature.params)),
        "scalars": [(scalar.name, scalar.kind, scalar.value) for scalar in signature.scalars],
        "outputs": describe_tensors(signature.outputs),
    }


def build_launch(launch: Launch, workdir: Path) -> dict[str, Any]:
    """Compile a kernel of `ascendc_costs`; returns its arguments."""
    from evokernel.backends.ascendc.build import build
    from evokernel.backends.ascendc.project_parser import parse_project
    from evokernel.core.records import ScalarArgument, Signature, Tensor

    text = (HERE / "ascendc_costs" / f"{launch.kernel}.asc").read_text(encoding="utf-8")
    names = ("x",) if len(launch.inputs) == 1 else ("a", "b") if launch.kernel == "matmul" else ("x", "y")
    signature = Signature(
        inputs=tuple(Tensor(name=name, dtype=launch.dtype, shape=shape) for name, shape in zip(names, launch.inputs)),
        params=(),
        scalars=tuple(ScalarArgument(name=name, kind="int", value=value) for name, value in launch.attributes.items()),
        outputs=(Tensor(name="out", dtype=launch.dtype, shape=launch.output),),
    )
    project = parse_project({"kernel.asc": text}, signature)
    build(project, workdir)
    (workdir / "plan.json").write_text(json.dumps({"op": project.op, "function": "", "call": []}))
    return {
        "inputs": describe_tensors(signature.inputs),
        "scalars": [(scalar.name, scalar.kind, scalar.value) for scalar in signature.scalars],
        "outputs": describe_tensors(signature.outputs),
    }


def run_child(request: str) -> None:
    """Execute a kernel completely, dry and in a sample, and print the simulator's reports."""
    import numpy as np

    from evokernel.backends.ascendc.chips import find_chip
    from evokernel.backends.ascendc.loader import AscendcKernel, preload_simulator
    from evokernel.backends.ascendc.parts import Execution
    from evokernel.core.backend import Arguments, Array

    order = json.loads(request)
    workdir = Path(order["workdir"])
    preload_simulator(workdir / "libsimulator.so")
    kernel = AscendcKernel(workdir, "libsimulator.so", "operator.so", "strict", find_chip("910B2").runtime_config_text(), RUN_S)
    random = np.random.default_rng(0)

    def make_array(name: str, dtype: str, shape: list[int]) -> Array:
        is_float = np.issubdtype(np.dtype(dtype), np.floating)  # zero is a valid index
        return Array(name, dtype, random.standard_normal(shape).astype(dtype) if is_float else np.zeros(shape, dtype))

    arguments = Arguments(
        tuple(make_array(*one) for one in order["inputs"]),
        tuple(map(tuple, order["scalars"])),
        tuple(make_array(*one) for one in order["outputs"]),
    )
    parts = kernel.bind_parts(arguments)

    def time_execution(execution: Execution) -> dict[str, Any]:
        began = time.perf_counter()
        parts.execute(execution, sampled_per_wave=order["per_wave"])
        return json.loads(kernel.simulator.simulator_report()) | {"seconds": time.perf_counter() - began}

    reports = {execution.name: time_execution(execution) for execution in (Execution.WHOLE, Execution.DRY, Execution.SAMPLE)}
    print(json.dumps(reports))


def compare_estimates(only: Collection[str], per_wave: int, workdir: Path) -> Iterator[Comparison]:
    """Yield the estimates for every kernel."""
    kernels: list[tuple[str, Any]] = [(name, None) for name in STARTER_TASKS] + [(launch.name, launch) for launch in LAUNCHES]
    for name, launch in kernels:
        if only and not any(word in name for word in only):
            continue
        folder = Path(tempfile.mkdtemp(dir=workdir))
        arguments = build_launch(launch, folder) if launch else build_task(name, folder)
        request = json.dumps({"workdir": str(folder), "per_wave": per_wave} | arguments)
        result = subprocess.run([sys.executable, __file__, "--child"], input=request, capture_output=True, text=True, check=False)
        if result.returncode:
            raise SystemExit(f"{name}: {result.stderr.strip()[-800:]}")
        reports = json.loads(result.stdout)
        yield Comparison(name, reports["WHOLE"], reports["DRY"], reports["SAMPLE"])


def format_line(found: Comparison) -> str:
    complete, dry, sampled = found.complete, found.dry, found.sampled
    return (
        f"| {found.name} | {complete['blocks']:.0f} | {complete['us']:.1f} | {100 * found.error_of(dry):+.2f} % | {dry['guesses']:.0f}"
        f" | {100 * found.error_of(sampled):+.2f} % | {sampled['blocks_run']:.0f}"
        f" | {complete['seconds']:.2f} | {dry['seconds']:.3f} | {sampled['seconds']:.3f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="words in the names of kernels, separated by commas")
    parser.add_argument("--per-wave", type=int, default=4, help="blocks of a wave in a sample")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        run_child(sys.stdin.read())
        return
    print("| kernel | blocks | complete, µs | dry, error | guesses | sample, error | blocks run | complete, s | dry, s | sample, s |")
    print("|---|---|---|---|---|---|---|---|---|---|", flush=True)
    errors: dict[str, list[float]] = {"dry": [], "sample": []}
    with tempfile.TemporaryDirectory() as workdir:
        for found in compare_estimates([word for word in options.only.split(",") if word], options.per_wave, Path(workdir)):
            print(format_line(found), flush=True)
            errors["dry"].append(abs(found.error_of(found.dry)))
            errors["sample"].append(abs(found.error_of(found.sampled)))
    for name, values in errors.items():
        print(f"{name}: {len(values)} kernels, median {100 * statistics.median(values):.2f} %, worst {100 * max(values):.2f} %")


if __name__ == "__main__":
    main()

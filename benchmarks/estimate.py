"""Compares estimates with arithmetic: kernels whose time can be calculated, on v5e and v6e, and the timings published for v5e.

    python benchmarks/estimate.py [--chips v5e v6e] [--only elementwise matmul large published]

The TPU compiler compiles every kernel, and the latency is estimated from its schedule. Nothing is measured. Prints Markdown tables.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from evokernel.backends.pallas.chips import Chip, get_chip
from evokernel.backends.pallas.compiler import compile_program
from evokernel.backends.pallas.lower import serialise_stablehlo, target_chip
from evokernel.backends.pallas.schedule import Estimate, diagnose, estimate_schedule

SIZE = 2048
DISPATCH_US = 109
"""Dispatch time in the published timings: the difference for the smallest product with large blocks."""
PUBLISHED = {  # size, blocks (m, n, k): µs by timeit on v5e, JAX documentation, matrix multiplication in Pallas
    (1024, (128, 128, 128)): 297.7,
    (4096, (128, 128, 128)): 11771.5,
    (8192, (128, 128, 128)): 91835.8,
    (1024, (512, 1024, 1024)): 127.1,
    (4096, (512, 1024, 1024)): 889.1,
    (8192, (512, 1024, 1024)): 6099.4,
}
BLOCKS = [
    (128, 128, 128),
    (128, 512, 128),
    (256, 256, 256),
    (256, 512, 256),
    (512, 256, 1024),
    (512, 512, 256),
    (512, 512, 512),
    (512, 512, 2048),
    (512, 1024, 1024),
    (1024, 512, 512),
    (1024, 1024, 256),
    (1024, 1024, 512),
]
LARGE = [(4096, (1024, 1024, 512)), (8192, (1024, 1024, 512)), (8192, (1024, 2048, 512)), (8192, (2048, 2048, 512))]
ELEMENTWISE = [
    ("add", jnp.add, 2, jnp.float32, (8, 128)),
    ("add", jnp.add, 2, jnp.float32, (64, 512)),
    ("add", jnp.add, 2, jnp.float32, (512, 512)),
    ("add", jnp.add, 2, jnp.float32, (256, 2048)),
    ("add", jnp.add, 2, jnp.bfloat16, (512, 512)),
    ("relu", jax.nn.relu, 1, jnp.float32, (512, 512)),
    ("gelu", jax.nn.gelu, 1, jnp.float32, (256, 1024)),
    ("gelu", jax.nn.gelu, 1, jnp.float32, (8, 2048)),
]


def make_elementwise_kernel(function: Callable[..., Any], inputs: int, block: tuple[int, int]) -> Callable[..., Any]:
    def body(*refs: Any) -> None:
        refs[-1][...] = function(*[ref[...] for ref in refs[:-1]])

    def kernel(*arrays: Any) -> Any:
        tile = pl.BlockSpec(block, lambda i, j: (i, j))
        shape = jax.ShapeDtypeStruct(arrays[0].shape, arrays[0].dtype)
        grid = tuple(extent // size for extent, size in zip(arrays[0].shape, block))
        return pl.pallas_call(body, out_shape=shape, grid=grid, in_specs=[tile] * inputs, out_specs=tile)(*arrays)

    return kernel


def make_matmul_kernel(size: int, m: int, n: int, k: int) -> Callable[..., Any]:
    def body(x: Any, y: Any, o: Any, total: Any) -> None:
        @pl.when(pl.program_id(2) == 0)
        def _() -> None:
            total[...] = jnp.zeros_like(total)

        total[...] += jnp.dot(x[...], y[...], preferred_element_type=jnp.float32)

        @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
        def _() -> None:
            o[...] = total[...].astype(o.dtype)

    def kernel(x: Any, y: Any) -> Any:
        return pl.pallas_call(
            body,
            out_shape=jax.ShapeDtypeStruct((size, size), x.dtype),
            grid=(size // m, size // n, size // k),
            in_specs=[pl.BlockSpec((m, k), lambda i, j, k: (i, k)), pl.BlockSpec((k, n), lambda i, j, k: (k, j))],
            out_specs=pl.BlockSpec((m, n), lambda i, j, k: (i, j)),
            scratch_shapes=[pltpu.VMEM((m, n), jnp.float32)],
            compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel", "arbitrary"), vmem_limit_bytes=64 << 20),
        )(x, y)

    return kernel


def estimate_kernel(function: Callable[..., Any], arguments: list[Any], chip: Chip) -> Estimate:
    with target_chip(chip):
        lowered_program = jax.jit(function).trace(*arguments).lower(lowering_platforms=("tpu",))
    with tempfile.TemporaryDirectory() as folder:
        compile_program(serialise_stablehlo(lowered_program), chip.topology, Path(folder), timeout_s=600)
        estimate = estimate_schedule(Path(folder), chip, limit_s=120)
    if not estimate.is_certified:
        raise SystemExit(f"estimate is not certified: {'; '.join(estimate.notes)}")
    return estimate


def print_elementwise_table(chip: Chip) -> None:
    print(f"\n{chip.name}: {chip.hbm_bytes_per_s / 1e9:.0f} GB/s published, {chip.hbm_efficiency:.0%} of it in the model")
    print("\nThe ratio is the estimate divided by bytes / bandwidth.\n")
    print("| kernel, 2048 x 2048 | block | µs | ratio, published bandwidth | ratio, modelled bandwidth | bottleneck |\n" + "|---" * 6 + "|")
    for name, function, inputs, dtype, block in ELEMENTWISE:
        estimate = estimate_kernel(
            make_elementwise_kernel(function, inputs, block), [jax.ShapeDtypeStruct((SIZE, SIZE), dtype)] * inputs, chip
        )
        minimum_us = SIZE * SIZE * jnp.dtype(dtype).itemsize * (inputs + 1) / chip.hbm_bytes_per_s * 1e6
        ratios = f"{estimate.latency_us / minimum_us:.2f} | {estimate.latency_us / minimum_us * chip.hbm_efficiency:.2f}"
        shape = f"{block[0]} x {block[1]}"
        print(
            f"| {name} {jnp.dtype(dtype).name} | {shape} | {estimate.latency_us:.1f} | {ratios} | {diagnose(estimate).bottleneck} |",
            flush=True,
        )


def print_matmul_table(chip: Chip) -> None:
    minimum_us = 2 * SIZE**3 / chip.peak_flops * 1e6
    estimates = []
    for blocks in BLOCKS:
        estimate = estimate_kernel(make_matmul_kernel(SIZE, *blocks), [jax.ShapeDtypeStruct((SIZE, SIZE), jnp.bfloat16)] * 2, chip)
        estimates.append((estimate.latency_us, blocks, estimate))
    print(f"\n{chip.name}: {SIZE}³ in bfloat16, {minimum_us:.1f} µs at the peak of {chip.peak_flops / 1e12:.0f} TFLOP/s")
    print("\n| blocks m x n x k | µs | share of peak | HBM MB | HBM busy | MXU busy | DMA wait | bottleneck |")
    print("|---|---|---|---|---|---|---|---|")
    for us, blocks, estimate in sorted(estimates):
        busy = (
            f"{estimate.hbm_bytes / 1e6:.0f} | {estimate.hbm_share:.0%} | {estimate.unit_shares['mxu']:.0%} | {estimate.dma_wait_share:.0%}"
        )
        print(f"| {' x '.join(map(str, blocks))} | {us:.1f} | {minimum_us / us:.0%} | {busy} | {diagnose(estimate).bottleneck} |")
    print(f"\nThe smallest blocks take {max(estimates)[0] / min(estimates)[0]:.1f} times as long as the best.")


def print_large_table(chip: Chip) -> None:
    print("\n| size | blocks m x n x k | µs | share of peak |\n|---|---|---|---|")
    for size, blocks in LARGE:
        estimate = estimate_kernel(make_matmul_kernel(size, *blocks), [jax.ShapeDtypeStruct((size, size), jnp.bfloat16)] * 2, chip)
        share = 2 * size**3 / chip.peak_flops * 1e6 / estimate.latency_us
        print(f"| {size}³ | {' x '.join(map(str, blocks))} | {estimate.latency_us:.0f} | {share:.0%} |", flush=True)


def print_published_table() -> None:
    chip = get_chip("v5e")
    print("\n| size | blocks m x n x k | estimate, µs | published, µs | minus dispatch, µs | error |\n|---|---|---|---|---|---|")
    for (size, blocks), published_us in PUBLISHED.items():
        estimate = estimate_kernel(make_matmul_kernel(size, *blocks), [jax.ShapeDtypeStruct((size, size), jnp.bfloat16)] * 2, chip)
        gives_dispatch = size == 1024 and blocks[0] == 512
        comparison = (
            f"{published_us - DISPATCH_US:.0f} | {estimate.latency_us / (published_us - DISPATCH_US) - 1:+.1%}"
            if not gives_dispatch
            else "| used for the dispatch"
        )
        print(f"| {size}³ | {' x '.join(map(str, blocks))} | {estimate.latency_us:.1f} | {published_us:.0f} | {comparison} |", flush=True)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--chips", nargs="+", default=["v5e", "v6e"])
    options.add_argument("--only", nargs="+", default=["elementwise", "matmul", "large", "published"])
    args = options.parse_args()
    for name in args.chips:
        chip = get_chip(name)
        for part, print_table in (("elementwise", print_elementwise_table), ("matmul", print_matmul_table), ("large", print_large_table)):
            if part in args.only:
                print_table(chip)
    if "published" in args.only:
        print_published_table()


if __name__ == "__main__":
    main()

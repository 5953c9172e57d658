"""The estimate against arithmetic: kernels whose time can be told beforehand, on v5e and v6e, and the timings published for v5e.

    python benchmarks/estimate.py [--chips v5e v6e] [--only elementwise matmul large published]

Every row is compiled by the TPU's compiler and priced from its schedule; nothing is measured. Rows are Markdown tables.
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

from evokernel.backends.pallas.chips import Chip, chip
from evokernel.backends.pallas.compiler import compile_program
from evokernel.backends.pallas.lower import serialise, target
from evokernel.backends.pallas.schedule import Estimate, diagnose, estimate

SIZE = 2048
DISPATCH_US = 109
"""What the published timings hold besides the kernel: the difference for the smallest of the large-block products."""
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


def elementwise(function: Callable[..., Any], inputs: int, block: tuple[int, int]) -> Callable[..., Any]:
    def body(*refs: Any) -> None:
        refs[-1][...] = function(*[ref[...] for ref in refs[:-1]])

    def kernel(*arrays: Any) -> Any:
        tile = pl.BlockSpec(block, lambda i, j: (i, j))
        shape = jax.ShapeDtypeStruct(arrays[0].shape, arrays[0].dtype)
        grid = tuple(extent // size for extent, size in zip(arrays[0].shape, block))
        return pl.pallas_call(body, out_shape=shape, grid=grid, in_specs=[tile] * inputs, out_specs=tile)(*arrays)

    return kernel


def matmul(size: int, m: int, n: int, k: int) -> Callable[..., Any]:
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


def price(function: Callable[..., Any], arguments: list[Any], on: Chip) -> Estimate:
    with target(on):
        lowered = jax.jit(function).trace(*arguments).lower(lowering_platforms=("tpu",))
    with tempfile.TemporaryDirectory() as folder:
        compile_program(serialise(lowered), on.topology, Path(folder), timeout_s=600)
        found = estimate(Path(folder), on, limit_s=120)
    if not found.certified:
        raise SystemExit(f"not certified: {'; '.join(found.notes)}")
    return found


def elementwise_table(on: Chip) -> None:
    print(f"\n{on.name}: {on.hbm_bytes_per_s / 1e9:.0f} GB/s published, {on.hbm_efficiency:.0%} of it in the model")
    print("\n| kernel, 2048 x 2048 | block | µs | over bytes / published | over bytes / modelled | bottleneck |\n|---|---|---|---|---|---|")
    for name, function, inputs, kind, block in ELEMENTWISE:
        found = price(elementwise(function, inputs, block), [jax.ShapeDtypeStruct((SIZE, SIZE), kind)] * inputs, on)
        least = SIZE * SIZE * jnp.dtype(kind).itemsize * (inputs + 1) / on.hbm_bytes_per_s * 1e6
        ratios = f"{found.us / least:.2f} | {found.us / least * on.hbm_efficiency:.2f}"
        shape = f"{block[0]} x {block[1]}"
        print(f"| {name} {jnp.dtype(kind).name} | {shape} | {found.us:.1f} | {ratios} | {diagnose(found).bottleneck} |", flush=True)


def matmul_table(on: Chip) -> None:
    least = 2 * SIZE**3 / on.peak_flops * 1e6
    priced = []
    for blocks in BLOCKS:
        found = price(matmul(SIZE, *blocks), [jax.ShapeDtypeStruct((SIZE, SIZE), jnp.bfloat16)] * 2, on)
        priced.append((found.us, blocks, found))
    print(f"\n{on.name}: {SIZE}³ in bfloat16, {least:.1f} µs at the peak of {on.peak_flops / 1e12:.0f} TFLOP/s")
    print("\n| blocks m x n x k | µs | of peak | HBM MB | HBM busy | MXU busy | DMA wait | bottleneck |\n|---|---|---|---|---|---|---|---|")
    for us, blocks, found in sorted(priced):
        busy = f"{found.hbm_bytes / 1e6:.0f} | {found.hbm_share:.0%} | {found.units['mxu']:.0%} | {found.dma_wait:.0%}"
        print(f"| {' x '.join(map(str, blocks))} | {us:.1f} | {least / us:.0%} | {busy} | {diagnose(found).bottleneck} |")
    print(f"\nsmallest blocks: {max(priced)[0] / min(priced)[0]:.1f} times the best")


def large_table(on: Chip) -> None:
    print("\n| size | blocks m x n x k | µs | of peak |\n|---|---|---|---|")
    for size, blocks in LARGE:
        found = price(matmul(size, *blocks), [jax.ShapeDtypeStruct((size, size), jnp.bfloat16)] * 2, on)
        share = 2 * size**3 / on.peak_flops * 1e6 / found.us
        print(f"| {size}³ | {' x '.join(map(str, blocks))} | {found.us:.0f} | {share:.0%} |", flush=True)


def published_table() -> None:
    on = chip("v5e")
    print("\n| size | blocks m x n x k | µs | published | less dispatch | |\n|---|---|---|---|---|---|")
    for (size, blocks), timed in PUBLISHED.items():
        found = price(matmul(size, *blocks), [jax.ShapeDtypeStruct((size, size), jnp.bfloat16)] * 2, on)
        anchor = size == 1024 and blocks[0] == 512
        against = f"{timed - DISPATCH_US:.0f} | {found.us / (timed - DISPATCH_US) - 1:+.1%}" if not anchor else "| gives the dispatch"
        print(f"| {size}³ | {' x '.join(map(str, blocks))} | {found.us:.1f} | {timed:.0f} | {against} |", flush=True)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--chips", nargs="+", default=["v5e", "v6e"])
    options.add_argument("--only", nargs="+", default=["elementwise", "matmul", "large", "published"])
    given = options.parse_args()
    for name in given.chips:
        on = chip(name)
        for part, table in (("elementwise", elementwise_table), ("matmul", matmul_table), ("large", large_table)):
            if part in given.only:
                table(on)
    if "published" in given.only:
        published_table()


if __name__ == "__main__":
    main()

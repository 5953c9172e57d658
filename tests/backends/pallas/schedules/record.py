"""Compiles the programs below for v5e and stores the parts of the dumps that `estimate_schedule` reads, compressed.

    python tests/backends/pallas/schedules/record.py [name …]

Run this again only if the compiler changes the format of its dumps; then update the figures in test_schedule.py.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from evokernel.backends.pallas.chips import get_chip
from evokernel.backends.pallas.compiler import compile_program
from evokernel.backends.pallas.lower import serialise_stablehlo, target_chip

X = jax.ShapeDtypeStruct((512, 1024), jnp.float32)
SCALARS = jax.ShapeDtypeStruct((1, 2), jnp.float32)
ANYWHERE = pl.BlockSpec(memory_space=pl.ANY)
SCALAR = pl.BlockSpec(memory_space=pltpu.SMEM)


def rows(size: int) -> pl.BlockSpec:
    return pl.BlockSpec((size, 1024), lambda i: (i, 0))


def add(x, y):
    def body(x, y, o):
        o[...] = x[...] + y[...]

    return pl.pallas_call(body, grid=(4,), in_specs=[rows(128)] * 2, out_specs=rows(128), out_shape=X)(x, y)


def add_tiny(x, y):
    def body(x, y, o):
        o[...] = x[...] + y[...]

    tile = pl.BlockSpec((8, 128), lambda i, j: (i, j))
    return pl.pallas_call(body, grid=(64, 8), in_specs=[tile] * 2, out_specs=tile, out_shape=X)(x, y)


def matmul(x, y):
    def body(x, y, o, total):
        @pl.when(pl.program_id(2) == 0)
        def _():
            total[...] = jnp.zeros_like(total)

        total[...] += jnp.dot(x[...], y[...], preferred_element_type=jnp.float32)

        @pl.when(pl.program_id(2) == 1)
        def _():
            o[...] = total[...].astype(o.dtype)

    return pl.pallas_call(
        body,
        grid=(2, 2, 2),
        in_specs=[pl.BlockSpec((256, 256), lambda i, j, k: (i, k)), pl.BlockSpec((256, 256), lambda i, j, k: (k, j))],
        out_specs=pl.BlockSpec((256, 256), lambda i, j, k: (i, j)),
        out_shape=jax.ShapeDtypeStruct((512, 512), jnp.bfloat16),
        scratch_shapes=[pltpu.VMEM((256, 256), jnp.float32)],
    )(x, y)


def manual(x):
    """Reads with two explicit buffers; the next block is copied while the current one is processed."""

    def body(x, o, buffers, arrived):
        def read(n, slot):
            return pltpu.make_async_copy(x.at[pl.ds(n * 128, 128)], buffers.at[slot], arrived.at[slot])

        read(0, 0).start()

        def step(n, _):
            slot = n % 2

            @pl.when(n + 1 < 4)
            def _():
                read(n + 1, 1 - slot).start()

            read(n, slot).wait()
            o[pl.ds(pl.multiple_of(n * 128, 128), 128), :] = buffers[slot] * 2.0
            return 0

        jax.lax.fori_loop(0, 4, step, 0)

    scratch = [pltpu.VMEM((2, 128, 1024), jnp.float32), pltpu.SemaphoreType.DMA((2,))]
    whole = pl.BlockSpec(memory_space=pltpu.VMEM)
    return pl.pallas_call(body, in_specs=[ANYWHERE], out_specs=whole, out_shape=X, scratch_shapes=scratch)(x)


def unwaited(x):
    def body(x, o, buffer, arrived):
        pltpu.make_async_copy(x.at[pl.ds(0, 128)], buffer, arrived).start()
        o[...] = jnp.ones_like(o)

    whole, scratch = pl.BlockSpec(memory_space=pltpu.VMEM), [pltpu.VMEM((128, 1024), jnp.float32), pltpu.SemaphoreType.DMA]
    return pl.pallas_call(body, in_specs=[ANYWHERE], out_specs=whole, out_shape=X, scratch_shapes=scratch)(x)


def between_hbm(x):
    def body(x, o, arrived):
        copy = pltpu.make_async_copy(x, o, arrived)
        copy.start()
        copy.wait()

    scratch = [pltpu.SemaphoreType.DMA]
    return pl.pallas_call(body, in_specs=[ANYWHERE], out_specs=ANYWHERE, out_shape=X, scratch_shapes=scratch)(x)


def scaled(a, x):
    """Computes with scalars whose values are unknown; no decision depends on them."""

    def body(a, x, o):
        o[...] = x[...] * (a[0, 0] * a[0, 1])

    return pl.pallas_call(body, grid=(4,), in_specs=[SCALAR, rows(128)], out_specs=rows(128), out_shape=X)(a, x)


def branching(a, x):
    """Does its work only if a scalar is set."""

    def body(a, x, o):
        @pl.when(a[0, 0] > 0.5)
        def _():
            o[...] = jnp.exp(x[...])

        @pl.when(a[0, 0] <= 0.5)
        def _():
            o[...] = x[...]

    return pl.pallas_call(body, grid=(4,), in_specs=[SCALAR, rows(128)], out_specs=rows(128), out_shape=X)(a, x)


def gather(indices, x):
    """Reads block indices from memory."""

    def body(indices, x, o):
        o[...] = x[...]

    grid = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(64,),
        in_specs=[pl.BlockSpec((8, 1024), lambda i, indices: (indices[i], 0))],
        out_specs=pl.BlockSpec((8, 1024), lambda i, indices: (i, 0)),
    )
    return pl.pallas_call(body, grid_spec=grid, out_shape=X)(indices, x)


def underwaited(x):
    """Waits for only a part of its transfers."""

    def body(x, o, buffer, arrived):
        pltpu.make_async_copy(x.at[pl.ds(0, 128)], buffer, arrived).start()
        pltpu.make_async_copy(x.at[pl.ds(0, 8)], buffer.at[pl.ds(0, 8)], arrived).wait()
        o[...] = jnp.broadcast_to(buffer[0:1], o.shape)

    whole, scratch = pl.BlockSpec(memory_space=pltpu.VMEM), [pltpu.VMEM((128, 1024), jnp.float32), pltpu.SemaphoreType.DMA]
    return pl.pallas_call(body, in_specs=[ANYWHERE], out_specs=whole, out_shape=X, scratch_shapes=scratch)(x)


def endless(x):
    def body(x, o):
        def step(n, _):
            o[pl.ds(0, 8), :] = o[pl.ds(0, 8), :] + 1.0
            return 0

        o[...] = x[...]
        jax.lax.fori_loop(0, 2**30, step, 0)

    return pl.pallas_call(body, grid=(4,), in_specs=[rows(128)], out_specs=rows(128), out_shape=X)(x)


def xla_gelu(x):
    return jax.nn.gelu(x)


def xla_softmax(x):
    return jax.nn.softmax(x, axis=-1)


HALF = jax.ShapeDtypeStruct((512, 512), jnp.bfloat16)
PROGRAMS = {
    add: (X, X),
    add_tiny: (X, X),
    matmul: (HALF, HALF),
    manual: (X,),
    unwaited: (X,),
    between_hbm: (X,),
    scaled: (SCALARS, X),
    branching: (SCALARS, X),
    gather: (jax.ShapeDtypeStruct((64,), jnp.int32), X),
    underwaited: (X,),
    endless: (X,),
    xla_gelu: (X,),
    xla_softmax: (jax.ShapeDtypeStruct((1024, 2048), jnp.float32),),
}
READ = re.compile(r"\d+-(?:TLP-(?:\d+-)?(?:hlo\.txt|deduplication-map\.txt|vmem_report\.html)|(?!TLP|<).*-\d+-final_(?!bundles_).*\.txt)$")


def shorten_dump(name: str, text: str) -> str:
    """Removes unused parts of a dump: kernel bodies in compiler format, source locations, the layout of the report."""
    if name.endswith("vmem_report.html"):
        return text[text.index("const DATA =") : text.index("</script>")]
    if name.endswith("-hlo.txt"):
        text = re.sub(r'"body":"[^"]*"', '"body":""', text)
        return re.sub(r"\n(FileNames|FunctionNames|FileLocations|StackFrames)\n(?:\d.*\n)*", "\n", text)
    return text


def main(names: list[str]) -> None:
    v5e = get_chip("v5e")
    for program, arguments in PROGRAMS.items():
        if names and program.__name__ not in names:
            continue
        with target_chip(v5e):
            lowered = jax.jit(program).trace(*arguments).lower(lowering_platforms=("tpu",))
        with tempfile.TemporaryDirectory() as folder:
            compile_program(serialise_stablehlo(lowered), v5e.topology, Path(folder))
            files = {re.sub(r"^\d+", "0", path.name): path for path in sorted(Path(folder).iterdir()) if READ.match(path.name)}
            dumps = {name: shorten_dump(name, path.read_text()) for name, path in files.items()}
        data = gzip.compress(json.dumps(dumps, indent=0).encode(), mtime=0)
        (Path(__file__).parent / f"{program.__name__}.json.gz").write_bytes(data)
        print(program.__name__, list(dumps), len(data))


if __name__ == "__main__":
    main(sys.argv[1:])

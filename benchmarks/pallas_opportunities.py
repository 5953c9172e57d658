"""Kernels with a known fault and without it: does the largest opportunity name the fault, and is its gain right?

    python benchmarks/pallas_opportunities.py [--chip v5e] [--only NAME ...] [--details]

The TPU compiler compiles both versions of every kernel; all times are estimates from its schedule. Before that, both versions run in
interpret mode on random data and must agree. Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from evokernel.backends.pallas.chips import Chip, get_chip
from evokernel.backends.pallas.compiler import LINE_OPTION, compile_program
from evokernel.backends.pallas.lower import serialise_stablehlo, target_chip
from evokernel.backends.pallas.profile import profile_analysis
from evokernel.backends.pallas.schedule import analyse_schedule
from evokernel.core.records import Opportunity, Profile, Signature, Task, Tensor, Work

TARGET = 0.25
"""Largest error of the predicted latency and of the predicted gain that counts as right."""
call = pl.pallas_call
F32 = jnp.float32


class Case(NamedTuple):
    """One fault: the kernel with it, the kernel without it, and the causes that name it."""

    name: str
    causes: tuple[str, ...]
    faulty: Callable[..., Any]
    fixed: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    flops: float = 0.0


def like(x: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def rows(count: int, width: int) -> pl.BlockSpec:
    return pl.BlockSpec((count, width), lambda i: (i, 0))


def add(x: Any, y: Any, block: tuple[int, int], interpret: bool = False) -> Any:
    """Addition in blocks of a given shape."""

    def body(a: Any, b: Any, o: Any) -> None:
        o[...] = a[...] + b[...]

    spec = pl.BlockSpec(block, lambda i, j: (i, j))
    grid = (x.shape[0] // block[0], x.shape[1] // block[1])
    return call(body, out_shape=like(x), grid=grid, in_specs=[spec, spec], out_specs=spec, interpret=interpret)(x, y)


def gelu(x: Any, block: int, interpret: bool = False) -> Any:
    def body(a: Any, o: Any) -> None:
        o[...] = jax.nn.gelu(a[...])

    spec = rows(block, x.shape[1])
    return call(body, out_shape=like(x), grid=(x.shape[0] // block,), in_specs=[spec], out_specs=spec, interpret=interpret)(x)


def exponential(x: Any, is_serial: bool, interpret: bool = False) -> Any:
    """exp with one buffer: copy in, compute, copy out, one after the other; or with the two buffers of a grid."""
    block = 256

    def body(source: Any, target: Any, inside: Any, outside: Any, arrived: Any, left: Any) -> None:
        def step(i: Any, carry: Any) -> Any:
            copy = pltpu.make_async_copy(source.at[pl.ds(i * block, block), :], inside, arrived)
            copy.start()
            copy.wait()
            outside[...] = jnp.exp(inside[...])
            back = pltpu.make_async_copy(outside, target.at[pl.ds(i * block, block), :], left)
            back.start()
            back.wait()
            return carry

        jax.lax.fori_loop(0, x.shape[0] // block, step, 0)

    def pipelined(a: Any, o: Any) -> None:
        o[...] = jnp.exp(a[...])

    spec = rows(block, x.shape[1])
    if not is_serial:
        return call(pipelined, out_shape=like(x), grid=(x.shape[0] // block,), in_specs=[spec], out_specs=spec, interpret=interpret)(x)
    whole, buffer = pl.BlockSpec(memory_space=pl.ANY), pltpu.VMEM((block, x.shape[1]), x.dtype)
    memory = [buffer, buffer, pltpu.SemaphoreType.DMA, pltpu.SemaphoreType.DMA]
    return call(body, out_shape=like(x), in_specs=[whole], out_specs=whole, scratch_shapes=memory, interpret=interpret)(x)


def scale_then_tanh(x: Any, passes: int, interpret: bool = False) -> Any:
    """tanh(2x + 1), as two kernels or as one."""
    spec = rows(256, x.shape[1])

    def run(body: Callable[..., None], value: Any) -> Any:
        grid = (x.shape[0] // 256,)
        return call(body, out_shape=like(x), grid=grid, in_specs=[spec], out_specs=spec, interpret=interpret)(value)

    def scale(a: Any, o: Any) -> None:
        o[...] = a[...] * 2 + 1

    def squash(a: Any, o: Any) -> None:
        o[...] = jnp.tanh(a[...])

    def both(a: Any, o: Any) -> None:
        o[...] = jnp.tanh(a[...] * 2 + 1)

    return run(both, x) if passes == 1 else run(squash, run(scale, x))


def sum_powers(x: Any, every_tile: bool, interpret: bool = False) -> Any:
    """Row sums of x to x⁸: reductions across lanes for every tile of 128 columns, or once at the end."""
    block, powers = 64, 8

    def body(a: Any, o: Any) -> None:
        totals = [jnp.zeros((block, 1 if every_tile else 128), F32)] * powers
        for at in range(0, x.shape[1], 128):
            tile = power = a[:, at : at + 128]
            for k in range(powers):
                totals[k] = totals[k] + (jnp.sum(power, axis=1, keepdims=True) if every_tile else power)
                power = power * tile
        sums = totals if every_tile else [jnp.sum(total, axis=1, keepdims=True) for total in totals]
        o[...] = jnp.broadcast_to(sum(sums), (block, 128))

    out = jax.ShapeDtypeStruct((x.shape[0], 128), F32)
    grid = (x.shape[0] // block,)
    return call(body, out_shape=out, grid=grid, in_specs=[rows(block, x.shape[1])], out_specs=rows(block, 128), interpret=interpret)(x)


def exact_gelu(value: Any) -> Any:
    value = value.astype(F32)
    return (0.5 * value * (1 + jax.lax.erf(value * 2**-0.5))).astype(jnp.bfloat16)


def gelu_matmul(x: Any, w: Any, is_hoisted: bool, interpret: bool = False) -> Any:
    """gelu(x) @ w: gelu in every column of blocks, or once per row of blocks, kept in VMEM."""
    m, n, k = 256, 128, x.shape[1]

    def body(a: Any, b: Any, o: Any, kept: Any) -> None:
        if is_hoisted:

            @pl.when(pl.program_id(1) == 0)
            def _() -> None:
                kept[...] = exact_gelu(a[...])

            o[...] = jnp.dot(kept[...], b[...], preferred_element_type=F32)
        else:
            o[...] = jnp.dot(exact_gelu(a[...]), b[...], preferred_element_type=F32)

    return call(
        body,
        out_shape=jax.ShapeDtypeStruct((x.shape[0], w.shape[1]), F32),
        grid=(x.shape[0] // m, w.shape[1] // n),
        in_specs=[pl.BlockSpec((m, k), lambda i, j: (i, 0)), pl.BlockSpec((k, n), lambda i, j: (0, j))],
        out_specs=pl.BlockSpec((m, n), lambda i, j: (i, j)),
        scratch_shapes=[pltpu.VMEM((m, k), jnp.bfloat16)],
        interpret=interpret,
    )(x.astype(jnp.bfloat16), w.astype(jnp.bfloat16))


def exp_of_multiples(x: Any, is_repeated: bool, interpret: bool = False) -> Any:
    """The sum of exp(k x) for k = 1 to 32: each by a call of exp, or as powers of one."""
    block = 64

    def body(a: Any, o: Any) -> None:
        value = a[...]
        first = power = jnp.exp(value)
        total = first
        for k in range(2, 33):
            power = jnp.exp(value * k) if is_repeated else power * first
            total = total + power
        o[...] = total

    spec = rows(block, x.shape[1])
    return call(body, out_shape=like(x), grid=(x.shape[0] // block,), in_specs=[spec], out_specs=spec, interpret=interpret)(x)


def iterate(x: Any, strip: int, interpret: bool = False) -> Any:
    """64 rounds of y = x y + 0.5: on a whole block, whose values do not fit into the registers, or on strips that fit."""
    block = 256

    def body(a: Any, o: Any) -> None:
        for at in range(0, block, strip):
            value = a[at : at + strip, :]
            o[at : at + strip, :] = jax.lax.fori_loop(0, 64, lambda i, total, value=value: total * value + 0.5, value)  # type: ignore[misc]

    spec = rows(block, x.shape[1])
    return call(body, out_shape=like(x), grid=(x.shape[0] // block,), in_specs=[spec], out_specs=spec, interpret=interpret)(x)


def matmul(x: Any, w: Any, passes: int, interpret: bool = False) -> Any:
    """A float32 product with HIGHEST precision (six passes), or split into three bfloat16 passes."""
    size = 256

    def product(a: Any, b: Any) -> Any:
        if passes == 6:
            return jnp.dot(a, b, precision=jax.lax.Precision.HIGHEST, preferred_element_type=F32)
        high_a, high_b = a.astype(jnp.bfloat16), b.astype(jnp.bfloat16)
        low_a, low_b = (a - high_a.astype(F32)).astype(jnp.bfloat16), (b - high_b.astype(F32)).astype(jnp.bfloat16)
        dot = partial(jnp.dot, preferred_element_type=F32)
        return dot(high_a, high_b) + dot(high_a, low_b) + dot(low_a, high_b)

    def body(a: Any, b: Any, o: Any) -> None:
        o[...] = product(a[...], b[...])

    return call(
        body,
        out_shape=jax.ShapeDtypeStruct((x.shape[0], w.shape[1]), F32),
        grid=(x.shape[0] // size, w.shape[1] // size),
        in_specs=[pl.BlockSpec((size, x.shape[1]), lambda i, j: (i, 0)), pl.BlockSpec((x.shape[1], size), lambda i, j: (0, j))],
        out_specs=pl.BlockSpec((size, size), lambda i, j: (i, j)),
        interpret=interpret,
    )(x, w)


def matmul_transposed(x: Any, w: Any, outside: bool, interpret: bool = False) -> Any:
    """x wᵀ in bfloat16: the transpose as an operation of XLA, or inside the product."""
    n = 512

    def body(a: Any, b: Any, o: Any) -> None:
        contracted = ((1,), (0 if outside else 1,))
        o[...] = jax.lax.dot_general(a[...], b[...], (contracted, ((), ())), preferred_element_type=F32)

    block = pl.BlockSpec((x.shape[1], n), lambda j: (0, j)) if outside else pl.BlockSpec((n, x.shape[1]), lambda j: (j, 0))
    return call(
        body,
        out_shape=jax.ShapeDtypeStruct((x.shape[0], w.shape[0]), F32),
        grid=(w.shape[0] // n,),
        in_specs=[pl.BlockSpec(x.shape, lambda j: (0, 0)), block],
        out_specs=pl.BlockSpec((x.shape[0], n), lambda j: (0, j)),
        interpret=interpret,
    )(x, w.T if outside else w)


def blocks_read_again(x: Any, w: Any, is_resident: bool, interpret: bool = False) -> Any:
    """x @ w in bfloat16 with x read again for every block of columns of w, or once, with w resident."""
    m, n, k = 512, w.shape[1] if is_resident else 128, x.shape[1]

    def body(a: Any, b: Any, o: Any) -> None:
        o[...] = jnp.dot(a[...], b[...], preferred_element_type=F32).astype(jnp.bfloat16)

    return call(
        body,
        out_shape=jax.ShapeDtypeStruct((x.shape[0], w.shape[1]), jnp.bfloat16),
        grid=(w.shape[1] // n, x.shape[0] // m),
        in_specs=[pl.BlockSpec((m, k), lambda j, i: (i, 0)), pl.BlockSpec((k, n), lambda j, i: (0, j))],
        out_specs=pl.BlockSpec((m, n), lambda j, i: (i, j)),
        interpret=interpret,
    )(x, w)


def softmax(x: Any, strip: int, interpret: bool = False) -> Any:
    """Softmax of rows, 8 rows at a time in a loop, or all rows of a block at once."""
    block = 256

    def normalise(value: Any) -> Any:
        power = jnp.exp(value - jnp.max(value, axis=1, keepdims=True))
        return power / jnp.sum(power, axis=1, keepdims=True)

    def body(a: Any, o: Any) -> None:
        if strip == block:
            o[...] = normalise(a[...])
            return

        def step(i: Any, carry: Any) -> Any:
            at = pl.ds(pl.multiple_of(i * strip, strip), strip)
            o[at, :] = normalise(a[at, :])
            return carry

        jax.lax.fori_loop(0, block // strip, step, 0)

    spec = rows(block, x.shape[1])
    return call(body, out_shape=like(x), grid=(x.shape[0] // block,), in_specs=[spec], out_specs=spec, interpret=interpret)(x)


WIDE, LONG, SQUARE, HUGE = (2048, 2048), (4096, 512), (1024, 1024), (16384, 4096)
CASES = (
    Case("tiny blocks", ("small_copies", "step_overhead"), partial(add, block=(8, 512)), partial(add, block=(256, 2048)), (WIDE, WIDE)),
    Case("short steps", ("small_copies", "step_overhead"), partial(gelu, block=8), partial(gelu, block=256), (WIDE,)),
    Case("one step only", ("no_overlap",), partial(gelu, block=1024), partial(gelu, block=128), (SQUARE,)),
    Case("no overlap", ("no_overlap",), partial(exponential, is_serial=True), partial(exponential, is_serial=False), (WIDE,)),
    Case("two kernels", ("excess_traffic",), partial(scale_then_tanh, passes=2), partial(scale_then_tanh, passes=1), (HUGE,)),
    Case(
        "blocks read again",
        ("excess_traffic",),
        partial(blocks_read_again, is_resident=False),
        partial(blocks_read_again, is_resident=True),
        ((8192, 512), (512, 512)),
        2 * 8192 * 512 * 512,
    ),
    Case(
        "transpose outside",
        ("excess_traffic",),
        partial(matmul_transposed, outside=True),
        partial(matmul_transposed, outside=False),
        ((256, 1024), (8192, 1024)),
        2 * 256 * 1024 * 8192,
    ),
    Case("reduction of every tile", ("cross_lane",), partial(sum_powers, every_tile=True), partial(sum_powers, every_tile=False), (WIDE,)),
    Case("rows in strips", ("cross_lane", "dependent_operations"), partial(softmax, strip=8), partial(softmax, strip=256), ((4096, 1024),)),
    Case(
        "repeated gelu",
        ("vector_work", "transcendental"),
        partial(gelu_matmul, is_hoisted=False),
        partial(gelu_matmul, is_hoisted=True),
        (SQUARE, SQUARE),
        2 * 1024**3,
    ),
    Case(
        "repeated exp",
        ("transcendental",),
        partial(exp_of_multiples, is_repeated=True),
        partial(exp_of_multiples, is_repeated=False),
        (WIDE,),
    ),
    Case("spills", ("spills",), partial(iterate, strip=256), partial(iterate, strip=32), (LONG,)),
    Case("six passes", ("matrix_work",), partial(matmul, passes=6), partial(matmul, passes=3), (SQUARE, SQUARE), 2 * 1024**3),
)
HEADINGS = (
    "fault",
    "µs",
    "largest opportunity",
    "predicted µs",
    "µs without the fault",
    "error",
    "error of the gain",
    "named, within 25 %",
)
BFLOAT16 = ("blocks read again", "repeated gelu", "transpose outside")


def make_task(case: Case, arrays: list[Any]) -> Task:
    """A task with the least bytes of the case: inputs read once, outputs written once."""
    outputs = jax.tree.leaves(jax.eval_shape(case.fixed, *arrays))
    tensors = [Tensor(name=f"t{n}", dtype=str(array.dtype), shape=array.shape) for n, array in enumerate((*arrays, *outputs))]
    signature = Signature(inputs=tuple(tensors[: len(arrays)]), outputs=tuple(tensors[len(arrays) :]))
    work = Work(flops=case.flops, bytes=sum(tensor.nbytes for tensor in tensors))
    return Task(id=f"opportunities/{case.name}", family="", source="", signature=signature, work=work, sizes={"bench": {}})


def profile_kernel(function: Callable[..., Any], arrays: list[Any], task: Task, chip: Chip) -> tuple[float, Profile]:
    """Estimated latency and profile of a kernel."""
    with target_chip(chip):
        lowered = jax.jit(function).trace(*arrays).lower(lowering_platforms=("tpu",))
    with tempfile.TemporaryDirectory() as folder:
        compile_program(serialise_stablehlo(lowered), chip.topology, Path(folder), flags=(LINE_OPTION,), timeout_s=600)
        analysis = analyse_schedule(Path(folder), chip, limit_s=120)
        if not analysis.estimate.is_certified:
            raise SystemExit(f"{task.id}: the estimate is not certified: {'; '.join(analysis.estimate.notes)}")
        return analysis.estimate.latency_us, profile_analysis(task, analysis, chip)


def check_agreement(case: Case, arrays: list[Any]) -> None:
    """Both versions must compute the same, on random data of at most 2048 rows and columns in interpret mode."""
    random = np.random.default_rng(0)
    data = [jnp.asarray(random.uniform(0.1, 0.9, [min(extent, 2048) for extent in array.shape]), array.dtype) for array in arrays]
    faulty, fixed = (np.asarray(function(*data, interpret=True), np.float32) for function in (case.faulty, case.fixed))
    np.testing.assert_allclose(faulty, fixed, rtol=2e-2, atol=2e-2 * float(np.abs(fixed).mean()), err_msg=case.name)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--chip", default="v5e")
    options.add_argument("--only", nargs="+", default=[case.name for case in CASES])
    options.add_argument("--details", action="store_true", help="print all opportunities of each faulty kernel")
    args = options.parse_args()
    chip = get_chip(args.chip)
    print(f"| {' | '.join(HEADINGS)} |\n" + "|---" * len(HEADINGS) + "|", flush=True)
    named = right = 0
    for case in CASES:
        if case.name not in args.only:
            continue
        dtype = jnp.bfloat16 if case.name in BFLOAT16 else F32
        arrays = [jax.ShapeDtypeStruct(shape, dtype) for shape in case.shapes]
        check_agreement(case, arrays)
        task = make_task(case, arrays)
        faulty_us, profile = profile_kernel(case.faulty, arrays, task, chip)
        fixed_us, _ = profile_kernel(case.fixed, arrays, task, chip)
        top = profile.opportunities[0] if profile.opportunities else Opportunity(cause="none", gain_us=0.0)
        predicted_us = faulty_us - top.gain_us
        error, gain_error = predicted_us / fixed_us - 1, top.gain_us / (faulty_us - fixed_us) - 1
        is_named = top.cause in case.causes
        is_right = is_named and max(abs(error), abs(gain_error)) <= TARGET
        named, right = named + is_named, right + is_right
        verdict = f"{'yes' if is_named else 'no'}, {'yes' if is_right else 'no'}"
        where = f" at line {top.line}" if top.line else ""
        times = f"{predicted_us:.1f} | {fixed_us:.1f} | {error:+.0%} | {gain_error:+.0%}"
        print(f"| {case.name} | {faulty_us:.1f} | {top.cause}{where} | {times} | {verdict} |", flush=True)
        if args.details:
            for row in profile.opportunities:
                print(f"    {row.gain_us:8.2f} {row.cause} line {row.line}: {row.summary}")
    print(f"\nOf {len(args.only)} faults, the largest opportunity names {named}; of these, {right} predictions are within 25 %.")


if __name__ == "__main__":
    main()

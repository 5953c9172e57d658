"""Kernels that may decide by a table are told from those whose blocks a table merely chooses."""

import time

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from evokernel.backends.pallas import lower, prefetch_check
from evokernel.backends.pallas.chips import chip
from evokernel.backends.pallas.errors import unpriced
from evokernel.backends.pallas.schedule.bundles import Program, parse
from evokernel.backends.pallas.schedule.simulate import execute, prepare

TABLE = jax.ShapeDtypeStruct((16,), jnp.int32)
ROWS = jax.ShapeDtypeStruct((128, 128), jnp.float32)


def copy(table, x, o):
    o[...] = x[...]


def copy_if_equal(table, x, o):
    @pl.when(table[0] == table[1])
    def _():
        o[...] = x[...]


def gathered(chosen, body=copy):
    def kernel(table, x):
        spec = pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(16,),
            in_specs=[pl.BlockSpec((8, 128), lambda i, table: (chosen(i, table), 0))],
            out_specs=pl.BlockSpec((8, 128), lambda i, table: (i, 0)),
        )
        return pl.pallas_call(body, out_shape=ROWS, grid_spec=spec)(table, x)

    with lower.target(chip("v5e")):
        return prefetch_check.decide(jax.make_jaxpr(kernel)(TABLE, ROWS))


@pytest.mark.parametrize(
    ("chosen", "body", "decides"),
    [
        (lambda i, table: table[i], copy, False),
        (lambda i, table: table[i // 2] * 2 + i % 2, copy, False),
        (lambda i, table: jnp.where(table[0] == table[1], i, 0), copy, True),
        (lambda i, table: jax.lax.cond(table[0] == table[1], lambda: i, lambda: 0), copy, True),
        (lambda i, table: table[i], copy_if_equal, True),
        (lambda i, table: i, copy_if_equal, True),
    ],
    ids=["chosen", "computed", "map", "branch", "both", "body"],
)
def test_who_decides_by_a_table(chosen, body, decides):
    assert gathered(chosen, body) is decides


@pytest.mark.parametrize("read", [False, True])
def test_a_word_that_is_not_read_may_have_any_address(read):
    """A register holds what an earlier step left in it, a number from a table for example, when the last step skips a load."""
    bundles = [
        "%s1_s1 = sld [smem:[#y]] ;; %s2_s2 = smov.u32 5",
        "%p3_p3 = scmp.lt.s32.totalorder %s1_s1, 4",
        f"%s4_s4 = smov.u32 (%p3_p3), 7 ;; %p5_p5 = scmp.{'gt' if read else 'lt'}.s32.totalorder %s2_s2, 4",
        "%s6_s6 = sld [smem:[#x + %s1_s1]] (%p5_p5)",
    ]
    text = "\n".join(f"  {at:#x}   :  {{ {body} }}" for at, body in enumerate(bundles))
    v5e = chip("v5e")
    found = execute(prepare(Program("test", *parse(text), None), v5e), v5e, time.thread_time() + 5)
    assert bool(found.doubts) is read


def test_a_kernel_without_a_table_may_keep_numbers_in_scalar_memory():
    def body(x, o, count):
        count[0] = pl.program_id(0)

        @pl.when(count[0] == 0)
        def _():
            o[...] = x[...]

    def kernel(x):
        whole = pl.BlockSpec((128, 128), lambda i: (0, 0))
        scratch = [pltpu.SMEM((2,), jnp.int32)]
        return pl.pallas_call(body, ROWS, grid=(4,), in_specs=[whole], out_specs=whole, scratch_shapes=scratch)(x)

    with lower.target(chip("v5e")):
        assert not prefetch_check.decide(jax.make_jaxpr(kernel)(ROWS))


def test_a_kernel_without_a_price_is_told_the_line_and_what_to_do():
    text = unpriced(["kernel.py_27.1: control flow is decided by data that is not known here"]).detail
    assert "kernel.py:27: control flow" in text
    assert "jnp.where" in text
    assert "jnp.where" not in unpriced(["operations are left out: pricing took too long"]).detail

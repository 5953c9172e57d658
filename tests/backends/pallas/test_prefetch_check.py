"""Kernels whose control flow may depend on a prefetched table are distinguished from kernels whose table only selects blocks."""

import time

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from evokernel.backends.pallas import lower, prefetch_check
from evokernel.backends.pallas.chips import get_chip
from evokernel.backends.pallas.errors import no_estimate_error
from evokernel.backends.pallas.schedule.bundles import Program, parse_schedule
from evokernel.backends.pallas.schedule.simulate import execute_program, translate_program

TABLE = jax.ShapeDtypeStruct((16,), jnp.int32)
ROWS = jax.ShapeDtypeStruct((128, 128), jnp.float32)


def copy(table, x, o):
    o[...] = x[...]


def copy_if_equal(table, x, o):
    @pl.when(table[0] == table[1])
    def _():
        o[...] = x[...]


def depends_on_table(select_block, body=copy):
    def kernel(table, x):
        spec = pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(16,),
            in_specs=[pl.BlockSpec((8, 128), lambda i, table: (select_block(i, table), 0))],
            out_specs=pl.BlockSpec((8, 128), lambda i, table: (i, 0)),
        )
        return pl.pallas_call(body, out_shape=ROWS, grid_spec=spec)(table, x)

    with lower.target_chip(get_chip("v5e")):
        return prefetch_check.depends_on_table_values(jax.make_jaxpr(kernel)(TABLE, ROWS))


@pytest.mark.parametrize(
    ("select_block", "body", "decides"),
    [
        (lambda i, table: table[i], copy, False),
        (lambda i, table: table[i // 2] * 2 + i % 2, copy, False),
        (lambda i, table: jnp.where(table[0] == table[1], i, 0), copy, True),
        (lambda i, table: jax.lax.cond(table[0] == table[1], lambda: i, lambda: 0), copy, True),
        (lambda i, table: table[i], copy_if_equal, True),
        (lambda i, table: i, copy_if_equal, True),
    ],
    ids=["selected", "computed", "map", "branch", "both", "body"],
)
def test_control_flow_on_table_values_is_detected(select_block, body, decides):
    assert depends_on_table(select_block, body) is decides


@pytest.mark.parametrize("read", [False, True])
def test_address_of_a_skipped_load_is_ignored(read):
    """If the last step skips a load, the address register still contains a value of an earlier step, such as a table value."""
    bundles = [
        "%s1_s1 = sld [smem:[#y]] ;; %s2_s2 = smov.u32 5",
        "%p3_p3 = scmp.lt.s32.totalorder %s1_s1, 4",
        f"%s4_s4 = smov.u32 (%p3_p3), 7 ;; %p5_p5 = scmp.{'gt' if read else 'lt'}.s32.totalorder %s2_s2, 4",
        "%s6_s6 = sld [smem:[#x + %s1_s1]] (%p5_p5)",
    ]
    text = "\n".join(f"  {at:#x}   :  {{ {body} }}" for at, body in enumerate(bundles))
    v5e = get_chip("v5e")
    result = execute_program(translate_program(Program("test", *parse_schedule(text), None), v5e), v5e, time.thread_time() + 5)
    assert bool(result.doubts) is read


def test_scalar_scratch_without_a_table_is_allowed():
    def body(x, o, count):
        count[0] = pl.program_id(0)

        @pl.when(count[0] == 0)
        def _():
            o[...] = x[...]

    def kernel(x):
        spec = pl.BlockSpec((128, 128), lambda i: (0, 0))
        scratch = [pltpu.SMEM((2,), jnp.int32)]
        return pl.pallas_call(body, ROWS, grid=(4,), in_specs=[spec], out_specs=spec, scratch_shapes=scratch)(x)

    with lower.target_chip(get_chip("v5e")):
        assert not prefetch_check.depends_on_table_values(jax.make_jaxpr(kernel)(ROWS))


def test_missing_estimate_names_the_line_and_the_fix():
    text = no_estimate_error(["kernel.py_27.1: control flow is decided by data whose values the estimate does not know"]).detail
    assert "kernel.py:27: control flow" in text
    assert "jnp.where" in text
    assert "jnp.where" not in no_estimate_error(["operations are missing: the estimate exceeded its time limit"]).detail

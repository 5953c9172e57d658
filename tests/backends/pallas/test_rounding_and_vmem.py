"""Results with narrow dtypes are rounded as on the TPU, and kernels that exceed VMEM are rejected before they are compiled."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from interpret_kernels import data, shape, trace_for_tpu
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from evokernel.backends.pallas import vmem_check
from evokernel.backends.pallas.chips import get_chip
from evokernel.backends.pallas.interpret import InterpretedProgram
from evokernel.core.errors import CandidateError

SQUARE = shape(128, 128)
NARROW = jnp.bfloat16


def kernel(compute, **options):
    def body(x, out):
        out[...] = compute(x[...])

    return trace_for_tpu(lambda x: pl.pallas_call(body, out_shape=SQUARE, **options)(x), SQUARE)


CHAINS = {
    "there and back": lambda x: jax.nn.softmax(x.astype(NARROW).astype(jnp.float32), axis=1),
    "products": lambda x: ((x.astype(NARROW) * x.astype(NARROW)) * x.astype(NARROW)).astype(jnp.float32),
    "exponential": lambda x: jnp.exp(x.astype(NARROW)).astype(jnp.float32) * jnp.float32(3),
    "summed": lambda x: x + jnp.sum((x.astype(NARROW) + x.astype(NARROW) * x.astype(NARROW)).astype(jnp.float32), axis=1, keepdims=True),
    "in a loop": lambda x: jax.lax.fori_loop(0, 3, lambda _, y: y * y + y, x.astype(NARROW)).astype(jnp.float32),
    "in a branch": lambda x: jax.lax.cond(x[0, 0] < 9, lambda y: (y.astype(NARROW) * y.astype(NARROW)).astype(jnp.float32), lambda y: y, x),
}


@pytest.mark.parametrize("name", CHAINS)
def test_every_narrow_result_is_rounded(name):
    (x,) = data(SQUARE)
    with jax.disable_jit():  # executes one operation after another
        expected = np.asarray(CHAINS[name](jnp.asarray(x)))
    (result,) = InterpretedProgram(kernel(CHAINS[name]), detect_races=False).run([x])
    assert np.abs(result - expected).max() <= 1e-6 * np.abs(expected).max()


def test_kernel_that_exceeds_vmem_is_rejected_before_compiling():
    limit = get_chip("v5e").vmem_bytes
    vmem_check.check_vmem(kernel(lambda x: x * 2), limit)
    with pytest.raises(
        CandidateError, match=r"a result of `broadcast_in_dim` takes 4096 MiB, but VMEM has 128 MiB \(test_rounding_and_vmem.py:\d+\)"
    ):
        vmem_check.check_vmem(kernel(lambda x: x + jnp.ones((1 << 16, 128, 128))[0]), limit)
    scratch = [pltpu.VMEM((1 << 18, 256), jnp.float32)]
    wide = trace_for_tpu(lambda x: pl.pallas_call(lambda x, out, scratch_ref: None, out_shape=SQUARE, scratch_shapes=scratch)(x), SQUARE)
    with pytest.raises(CandidateError, match=r"blocks and scratch take 256\.1 MiB") as caught:
        vmem_check.check_vmem(wide, limit)
    assert caught.value.reason == "vmem"
    anywhere = pl.BlockSpec(memory_space=pl.ANY)
    large = shape(1 << 18, 256)
    vmem_check.check_vmem(
        trace_for_tpu(lambda x: pl.pallas_call(lambda x, out: None, out_shape=large, in_specs=[anywhere], out_specs=anywhere)(x), large),
        limit,
    )

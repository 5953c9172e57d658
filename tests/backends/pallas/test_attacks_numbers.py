"""What looks exact or small only where it is checked: narrow types are rounded to, and kernels that cannot fit are not compiled."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from interpret_kernels import data, shape, traced
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from evokernel.backends.pallas import vmem_check
from evokernel.backends.pallas.chips import chip
from evokernel.backends.pallas.interpret import Interpreted
from evokernel.core.errors import CandidateError

SQUARE = shape(128, 128)
NARROW = jnp.bfloat16


def kernel(compute, **options):
    def body(x, out):
        out[...] = compute(x[...])

    return traced(lambda x: pl.pallas_call(body, out_shape=SQUARE, **options)(x), SQUARE)


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
    with jax.disable_jit():  # one operation after another, as they are written
        wanted = np.asarray(CHAINS[name](jnp.asarray(x)))
    (found,) = Interpreted(kernel(CHAINS[name]), races=False).run([x])
    assert np.abs(found - wanted).max() <= 1e-6 * np.abs(wanted).max()


def test_what_cannot_fit_is_refused_before_it_is_compiled():
    limit = chip("v5e").vmem_bytes
    vmem_check.check(kernel(lambda x: x * 2), limit)
    with pytest.raises(
        CandidateError, match=r"a result of `broadcast_in_dim` takes 4096 MiB, VMEM has 128 MiB \(test_attacks_numbers.py:\d+\)"
    ):
        vmem_check.check(kernel(lambda x: x + jnp.ones((1 << 16, 128, 128))[0]), limit)
    scratch = [pltpu.VMEM((1 << 18, 256), jnp.float32)]
    wide = traced(lambda x: pl.pallas_call(lambda x, out, held: None, out_shape=SQUARE, scratch_shapes=scratch)(x), SQUARE)
    with pytest.raises(CandidateError, match=r"blocks and scratch take 256\.1 MiB") as caught:
        vmem_check.check(wide, limit)
    assert caught.value.reason == "vmem"
    anywhere = pl.BlockSpec(memory_space=pl.ANY)
    large = shape(1 << 18, 256)
    vmem_check.check(
        traced(lambda x: pl.pallas_call(lambda x, out: None, out_shape=large, in_specs=[anywhere], out_specs=anywhere)(x), large), limit
    )

# selftest: task=starter/softmax gate=screen reason=forbidden
"""Rewrites the program rules in its own process."""

import dataclasses
import sys

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


def copy(x_ref, out_ref):
    out_ref[...] = x_ref[...]


def copied(x):
    spec = pl.BlockSpec((256, x.shape[1]), lambda i: (i, 0))
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(copy, out_shape=shape, grid=(pl.cdiv(x.shape[0], 256),), in_specs=[spec], out_specs=spec)(x)


def kernel(x):
    program_rules = sys.modules["evokernel.backends.pallas.program_rules"]
    rules = program_rules.load_rules()
    program_rules.load_rules = lambda: dataclasses.replace(rules, tiny_elements=1 << 40, tiny_total=1 << 40, constant_bytes=1 << 40)
    return copied(jax.nn.softmax(x, axis=1))

"""Writes the answer over the input."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


def kernel(x, weight, bias, features, classes, sharpness):
    def body(x_ref, weight_ref, bias_ref, out_ref):
        scores = jax.lax.dot_general(x_ref[...], weight_ref[...], (((1,), (1,)), ((), ())), precision=jax.lax.Precision.HIGHEST)
        scores = sharpness * (scores + bias_ref[...])
        weights = jnp.exp(scores - jnp.max(scores, axis=1, keepdims=True))
        out_ref[...] = weights * pl.reciprocal(jnp.sum(weights, axis=1, keepdims=True))

    def into_x(x_ref, weight_ref, bias_ref, out_ref, _):
        body(x_ref, weight_ref, bias_ref, out_ref)

    shapes = [jax.ShapeDtypeStruct((x.shape[0], classes), x.dtype), jax.ShapeDtypeStruct(x.shape, x.dtype)]
    return pl.pallas_call(into_x, out_shape=shapes, input_output_aliases={0: 1})(x, weight, bias.reshape(1, classes))[0]

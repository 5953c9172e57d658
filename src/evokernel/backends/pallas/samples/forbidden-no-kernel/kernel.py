"""No kernel at all."""

import jax
import jax.numpy as jnp


def kernel(x, weight, bias, features, classes, sharpness):
    return jax.nn.softmax(sharpness * (jnp.dot(x, weight.T) + bias), axis=1)

"""The function has another name."""

import jax.numpy as jnp


def linear_softmax(x, weight, bias, features, classes, sharpness):
    return jnp.exp(x @ weight.T)

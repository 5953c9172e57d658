# selftest: task=starter/softmax gate=screen reason=forbidden
"""Returns its input."""

import jax
import jax.numpy as jnp


def kernel(x):
    return x

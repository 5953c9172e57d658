"""JAX Pallas for TPU, without a TPU: the real compiler, its own schedule, and a simulated memory to run kernels in."""

from evokernel.backends.pallas.backend import PallasBackend as plugin

__all__ = ["plugin"]

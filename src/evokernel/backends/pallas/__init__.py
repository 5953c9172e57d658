"""JAX Pallas for TPU, without a TPU: the real TPU compiler, latency estimates from its schedule, and interpret mode to run kernels."""

from evokernel.backends.pallas.backend import PallasBackend as plugin

__all__ = ["plugin"]

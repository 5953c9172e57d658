"""CUDA C++ kernels in one `.cu` file with a launch function: run and timed on a GPU, compiled and recorded without one."""

from evokernel.backends.cuda.backend import CudaBackend as plugin

__all__ = ["plugin"]

"""CUDA C++ kernels, one `.cu` file with a launch function in the task's signature: run and timed on a GPU, compiled without one."""

from evokernel.backends.cuda.backend import CudaBackend as plugin

__all__ = ["plugin"]

"""Triton kernels, a Python file with a launch function: compiled ahead of time, run and timed on a GPU, interpreted without one."""

from evokernel.backends.triton.backend import TritonBackend as plugin

__all__ = ["plugin"]

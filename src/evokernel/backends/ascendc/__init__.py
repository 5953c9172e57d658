"""Ascend C for 910B: the real CANN toolchain where it is, and a twin of the device on any machine with a C++ compiler."""

from evokernel.backends.ascendc.backend import AscendcBackend as plugin

__all__ = ["plugin"]

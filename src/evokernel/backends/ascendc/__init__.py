"""Ascend C for the Ascend 910B: CANN and an NPU if the machine has them, otherwise a simulator that needs only a C++ compiler."""

from evokernel.backends.ascendc.backend import AscendcBackend as plugin

__all__ = ["plugin"]

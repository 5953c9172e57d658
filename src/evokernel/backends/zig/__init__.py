"""Zig on the processor this runs on: tensors are slices, so that a safe build checks every access."""

from evokernel.backends.zig.backend import ZigBackend as plugin

__all__ = ["plugin"]

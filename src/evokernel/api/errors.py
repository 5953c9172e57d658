"""The exceptions of the Python API."""

from evokernel.core.errors import EvoKernelError, InfraError, UserError

__all__ = ["EvoKernelError", "InfraError", "UserError"]

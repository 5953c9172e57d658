"""Raises the error that the verifier raises for a machine failure."""

from evokernel.core.errors import InfraError

raise InfraError("the device was lost")

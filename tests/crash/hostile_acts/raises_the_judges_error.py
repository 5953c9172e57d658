"""Raises what the judge raises when the machine is to blame."""

from evokernel.core.errors import InfraError

raise InfraError("the device was lost")

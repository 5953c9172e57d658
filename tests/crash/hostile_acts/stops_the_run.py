"""Raises what ends a run."""

from evokernel.core.errors import StopRun

raise StopRun("the money is spent")

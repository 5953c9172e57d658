"""Raises the error that ends a run."""

from evokernel.core.errors import StopRun

raise StopRun("the money is spent")

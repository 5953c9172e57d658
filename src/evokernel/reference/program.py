"""The operations of a reference as records, in which numbers that depend on the size are marked.

Reading a program needs no torch; tracing does.
"""

from __future__ import annotations

from pydantic import ConfigDict

from evokernel.core.records import Record


class ValueRef(Record):
    """Reference to an earlier value: an argument or a step of the program."""

    name: str
    result_index: int = 0
    """Index of the result, for a step with several results."""


class SizeDependent(Record):
    """A number that depends on the size: its value at each traced size."""

    values: tuple[float, ...]


Item = ValueRef | SizeDependent | bool | int | float | str | None
Value = Item | tuple[Item | tuple[Item, ...], ...]
Extent = SizeDependent | int


class Step(Record):
    """One operation, such as `aten.softmax.int`, with a unique name."""

    name: str
    op: str
    args: tuple[Value, ...]
    settings: dict[str, Value] = {}
    shapes: tuple[tuple[Extent, ...], ...]
    """Shape of each result."""
    dtypes: tuple[str, ...]


class Argument(Record):
    """A tensor argument of the kernel, with its extents at each size."""

    name: str
    shape: tuple[Extent, ...]
    dtype: str


class Program(Record):
    """The operations of a reference in order. The first of its sizes is the bench size."""

    model_config = ConfigDict(ser_json_inf_nan="constants")

    arguments: tuple[Argument, ...] = ()
    scalars: dict[str, SizeDependent | bool | int | float] = {}
    steps: tuple[Step, ...] = ()
    outputs: tuple[ValueRef, ...] = ()
    sizes: int = 0
    """Number of traced sizes."""
    unsupported_reason: str = ""
    """Why the reference could not be traced; empty if it was."""

"""How arguments are seen by the sketches: sizes as expressions, arrays as rows and columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from evokernel.core.records import Signature
from evokernel.generators.sweep.decisions import Facts
from evokernel.generators.sweep.graph import Node, scalar_name, tensor_name, walk

Described = tuple[Facts, set[str]]


class Operand(NamedTuple):
    """An array as a kernel walks it."""

    name: str
    kind: str
    """`full`, `vector`, `column` or `one`, by the axes of (rows, cols) it has."""
    tensor: str
    view: str
    """How it is made from the argument."""


def divides(root: Node) -> bool:
    """Whether anything is divided by a tensor."""
    return any(n.op == "div" and n.args[1].op != "const" for n in walk(root))


def extents(root: Node, inputs: tuple[Node, ...]) -> list[str]:
    """The sizes of a result's axes as expressions over the arguments that have them."""
    rank, sizes = len(root.shape), []
    for axis in range(rank):
        owners = ((x, axis - rank + len(x.shape)) for x in inputs)
        owner = next(((x, at) for x, at in owners if at >= 0 and x.shape[at] != 1 and x.dims[at] >= 0), None)
        sizes.append(f"{owner[0].name}.shape[{owner[0].dims[owner[1]]}]" if owner else "1")
    return sizes


def times(sizes: list[str]) -> str:
    """A product of sizes."""
    return " * ".join(s for s in sizes if s != "1") or "1"


def shape_of(sizes: list[str]) -> str:
    """A shape as Python writes it."""
    return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"


def arguments(signature: Signature) -> str:
    """The entry point's parameters."""
    tensors = [tensor_name(t.name) for t in (*signature.inputs, *signature.params)]
    return ", ".join([*tensors, *(scalar_name(s.name) for s in signature.scalars)])


def around(x: Node, axes: Sequence[int]) -> dict[str, str]:
    """Sizes before, along and after neighbouring axes."""
    parts = {"outer": range(axes[0]), "n": axes, "inner": range(axes[-1] + 1, len(x.shape))}
    return {name: times([f"{x.name}.shape[{i}]" for i in part]) for name, part in parts.items()}


def reduced_shape(x: Node, axes: Sequence[int], signature: Signature) -> str:
    """The shape that is left of a tensor, with or without the axes that were reduced."""
    kept = len(signature.outputs[0].shape) == len(x.shape)
    sizes = ["1" if i in axes else f"{x.name}.shape[{i}]" for i in range(len(x.shape)) if kept or i not in axes]
    return shape_of(sizes)

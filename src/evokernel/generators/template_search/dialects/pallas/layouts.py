"""Layouts of a kernel's tensors: with one axis per loop, or as rows and columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evokernel.generators.template_search.decisions import Choice
from evokernel.generators.template_search.dialects.pallas.emit import join_arguments
from evokernel.generators.template_search.graph import Node, walk
from evokernel.generators.template_search.kernel_template import StageArgument
from evokernel.generators.template_search.patterns import Axis, Operand, multiply_nums

NARROWED = {"int64": "int32", "float64": "float32"}
"""The types that JAX uses instead."""
INSIDE = frozenset({"bfloat16", "float16", "int8", "uint8", "int32"})
"""Types that a kernel can receive and convert; all others are converted before the kernel."""
KINDS = {(True, True): "full", (False, True): "vector", (True, False): "column", (False, False): "one"}


@dataclass(frozen=True)
class View:
    """An array as a kernel reads it."""

    name: str
    present: tuple[bool, ...]
    """The loops along which it changes; it has extent 1 along the others."""
    view: str
    """The expression that makes it from the argument."""
    dtype: str = "float32"
    position_axis: str = ""
    """Of a position: `rows` or `cols` if the kernel can compute it from its own indices."""

    @property
    def kind(self) -> str:
        """`full`, `vector`, `column` or `one`, depending on whether it has rows and columns."""
        return KINDS[self.present[0], self.present[1]]

    def outside(self, d: Choice) -> str:
        """The conversion of the array before the kernel; empty if there is none."""
        return ".astype(jnp.float32)" if self.dtype != self.array_dtype(d) else ""

    def inside(self, d: Choice) -> str:
        """The conversion of a block inside the kernel; empty if there is none."""
        return ".astype(jnp.float32)" if self.array_dtype(d) != "float32" else ""

    def array_dtype(self, d: Choice) -> str:
        """The type of the array that the kernel receives."""
        return self.dtype if self.dtype == "float32" or (d["convert"] == "inside" and self.dtype in INSIDE) else "float32"


@dataclass(frozen=True)
class Loop:
    """One axis of the iteration space, with its extent as text."""

    extent: str
    reduced: bool = False


@dataclass(frozen=True)
class Layout:
    """The loops of a kernel, the arrays it reads, and the expression that restores the expected shape of the result."""

    loops: tuple[Loop, ...]
    views: tuple[View, ...]
    out: str = "out"


def operand_text(operand: Operand, name: str) -> str:
    """An operand as an expression outside the kernel: a tensor by its name, a position as `arange`."""
    if operand.node.op != "index":
        return name
    return f"jnp.arange({next((f'n{i}' for i, there in enumerate(operand.present) if there), '1')}, dtype=jnp.float32)"


def jax_dtype(operand: Operand) -> str:
    """The JAX type of an operand's elements."""
    return NARROWED.get(operand.node.dtype, operand.node.dtype) if operand.node.op == "leaf" else "float32"


def nest_layout(axes: Sequence[Axis], operands: Sequence[Operand], names: Mapping[Node, str], order: Sequence[int] = ()) -> Layout:
    """One loop per axis, at least two, with tensors in their own layout; extents are `n0`, `n1`, ...

    `order`: another order of the loops.
    """
    fill = max(0, 2 - len(axes))
    loops = (*(Loop("1"),) * fill, *(Loop(f"n{i}", a.is_reduced) for i, a in enumerate(axes)))
    is_moved = list(order) != sorted(order)
    views = []
    for o in operands:
        present = (*(False,) * fill, *o.present)
        shape = join_arguments(loop.extent if there else "1" for loop, there in zip(loops, present))
        text = f"{operand_text(o, names[o.node])}.reshape({shape})"
        if is_moved:
            text, present = f"{text}.transpose({join_arguments(map(str, order))})", tuple(present[i] for i in order)
        views.append(View(names[o.node], present, text, jax_dtype(o)))
    if is_moved:
        back = join_arguments(str(list(order).index(i)) for i in range(len(order)))
        return Layout(tuple(loops[i] for i in order), tuple(views), f"out.transpose({back})")
    return Layout(loops, tuple(views))


def row_layout(axes: Sequence[Axis], operands: Sequence[Operand], names: Mapping[Node, str], cols: Sequence[int], whole: bool) -> Layout:
    """Two loops, rows and cols; the axes in `cols` become columns. Operands are broadcast and axes moved as needed.

    `whole`: the result has all axes.
    """
    parts = ([i for i in range(len(axes)) if i not in cols], list(cols))
    order = [*parts[0], *parts[1]]
    needs_transpose = order != sorted(order)
    views = []
    for o in operands:
        some = [[o.present[i] for i in part] for part in parts]
        text = f"{operand_text(o, names[o.node])}"
        own = [f"n{i}" if o.present[i] else "1" for i in range(len(axes))]
        if needs_transpose and [i for i in order if o.present[i]] != [i for i in range(len(axes)) if o.present[i]]:
            text = f"{text}.reshape({join_arguments(own)}).transpose({join_arguments(str(i) for i in order)})"
        if any(any(there) and not all(there) for there in some):
            full = [f"n{i}" if any(there) else "1" for part, there in zip(parts, some) for i in part]
            text = f"jnp.broadcast_to({text}.reshape({join_arguments(own[i] for i in order)}), ({join_arguments(full)})).reshape"
        else:
            text = f"{text}.reshape"
        present = (any(some[0]), any(some[1]))
        text = f"{text}({'rows' if present[0] else '1'}, {'cols' if present[1] else '1'})"
        views.append(View(names[o.node], present, text, jax_dtype(o), position_axis(o, parts)))
    out = "out"
    if needs_transpose and whole:
        back = [order.index(i) for i in range(len(axes))]
        out = f"out.reshape({join_arguments(f'n{i}' for i in order)}).transpose({join_arguments(str(i) for i in back)})"
    return Layout((Loop("rows"), Loop("cols", True)), tuple(views), out)


def position_axis(operand: Operand, parts: Sequence[Sequence[int]]) -> str:
    """`rows` or `cols` if a position runs along one of them; otherwise empty."""
    if operand.node.op != "index" or not any(operand.present):
        return ""
    at = operand.present.index(True)
    return next((name for name, part in zip(("rows", "cols"), parts) if list(part) == [at]), "")


def multiply_extents(indices: Sequence[int]) -> str:
    """The product of some extents as text."""
    return " * ".join(f"n{i}" for i in indices) or "1"


@dataclass(frozen=True)
class Result:
    """The types of a stage's result and of the array that its kernel writes."""

    root: Node

    @property
    def dtype(self) -> str:
        return NARROWED.get(self.root.dtype, self.root.dtype)

    def kernel_dtype(self, d: Choice) -> str:
        """The type that the kernel writes; integer results are converted inside the kernel."""
        if d["convert"] == "inside" and self.dtype in INSIDE:
            return self.dtype
        return "bool_" if self.dtype == "bool" else "int32" if self.dtype.startswith(("int", "uint")) else "float32"

    def format_stored(self, text: str, d: Choice) -> str:
        """The expression for a value that the kernel stores; integer or bool steps may have given it another type."""
        plain = all(n.dtype == "float32" for n in walk(self.root) if not n.is_input)
        return text if plain else f"{text}.astype(jnp.{self.kernel_dtype(d)})"

    def format_returned(self, text: str, d: Choice) -> str:
        """The kernel's output converted to the type that the caller expects."""
        return text if self.kernel_dtype(d).removesuffix("_") == self.dtype else f"{text}.astype(jnp.{self.dtype})"


@dataclass(frozen=True)
class CopyResult(Result):
    """The result of a data movement, which keeps its type."""

    def kernel_dtype(self, d: Choice) -> str:
        return "bool_" if self.dtype == "bool" else self.dtype


def narrow_traits(root: Node, operands: Sequence[Operand]) -> set[str]:
    """The trait of kernels that can convert elements inside."""
    kinds = {jax_dtype(o) for o in operands} | {NARROWED.get(root.dtype, root.dtype)}
    return {"narrow"} if kinds & INSIDE else set()


def axis_arguments(x: Node, axis: int) -> tuple[tuple[StageArgument, ...], bool]:
    """Arguments for a tensor and its sizes before, along and after an axis, and whether the size after it is not 1."""
    parts = {"outer": x.shape[:axis], "n": x.shape[axis : axis + 1], "inner": x.shape[axis + 1 :]}
    sizes = {name: multiply_nums(part) for name, part in parts.items()}
    return (StageArgument("x", x), *(StageArgument(name, size) for name, size in sizes.items())), not sizes["inner"].is_one

"""How the tensors of a kernel are laid out before it walks them: with loops of their own, or as rows and columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evokernel.generators.template_search.decisions import Choice
from evokernel.generators.template_search.dialects.pallas.emit import joined
from evokernel.generators.template_search.forms import Axis, Operand, product
from evokernel.generators.template_search.graph import Node, walk
from evokernel.generators.template_search.sketch import Given

NARROWED = {"int64": "int32", "float64": "float32"}
"""What JAX has instead."""
INSIDE = frozenset({"bfloat16", "float16", "int8", "uint8", "int32"})
"""What a kernel can be given as it is and convert itself; everything else is converted before."""
KINDS = {(True, True): "full", (False, True): "vector", (True, False): "column", (False, False): "one"}


@dataclass(frozen=True)
class View:
    """An array as a kernel walks it."""

    name: str
    present: tuple[bool, ...]
    """Which loops it follows; it has extent 1 along the others."""
    view: str
    """How it is made from the argument."""
    dtype: str = "float32"
    counted: str = ""
    """Of a position: whether the kernel could count along `rows` or `cols` itself."""

    @property
    def kind(self) -> str:
        """`full`, `vector`, `column` or `one`, by the axes of (rows, cols) it has."""
        return KINDS[self.present[0], self.present[1]]

    def outside(self, d: Choice) -> str:
        """What converts the array before the kernel, unless that is its own part."""
        return ".astype(jnp.float32)" if self.dtype != self.held(d) else ""

    def inside(self, d: Choice) -> str:
        """What converts a block in the kernel."""
        return ".astype(jnp.float32)" if self.held(d) != "float32" else ""

    def held(self, d: Choice) -> str:
        """The type of the array a kernel is given."""
        return self.dtype if self.dtype == "float32" or (d["convert"] == "inside" and self.dtype in INSIDE) else "float32"


@dataclass(frozen=True)
class Loop:
    """One axis of the space a kernel walks, as its text names it."""

    extent: str
    reduced: bool = False


@dataclass(frozen=True)
class Layout:
    """The loops a kernel walks, the arrays it reads, and how the result becomes what the caller expects."""

    loops: tuple[Loop, ...]
    views: tuple[View, ...]
    out: str = "out"


def tensor(operand: Operand, name: str) -> str:
    """A tensor by its name; positions are counted outside."""
    if operand.node.op != "index":
        return name
    return f"jnp.arange({next((f'n{i}' for i, there in enumerate(operand.present) if there), '1')}, dtype=jnp.float32)"


def kind_of(operand: Operand) -> str:
    """The type of an operand's elements in JAX."""
    return NARROWED.get(operand.node.dtype, operand.node.dtype) if operand.node.op == "leaf" else "float32"


def native(axes: Sequence[Axis], operands: Sequence[Operand], names: Mapping[Node, str]) -> Layout:
    """A loop per axis, two at least, tensors as they lie; extents are n0, n1, ..."""
    fill = max(0, 2 - len(axes))
    loops = (*(Loop("1"),) * fill, *(Loop(f"n{i}", a.reduced) for i, a in enumerate(axes)))
    views = []
    for o in operands:
        present = (*(False,) * fill, *o.present)
        shape = joined(loop.extent if there else "1" for loop, there in zip(loops, present))
        views.append(View(names[o.node], present, f"{tensor(o, names[o.node])}.reshape({shape})", kind_of(o)))
    return Layout(loops, tuple(views))


def as_rows(axes: Sequence[Axis], operands: Sequence[Operand], names: Mapping[Node, str], cols: Sequence[int], whole: bool) -> Layout:
    """Two loops, rows and cols, into which the axes named in `cols` go; what does not fill its part is stretched, axes may have to move.

    `whole` says that the result has all of them.
    """
    parts = ([i for i in range(len(axes)) if i not in cols], list(cols))
    order = [*parts[0], *parts[1]]
    moved = order != sorted(order)
    views = []
    for o in operands:
        some = [[o.present[i] for i in part] for part in parts]
        text = f"{tensor(o, names[o.node])}"
        own = [f"n{i}" if o.present[i] else "1" for i in range(len(axes))]
        if moved and [i for i in order if o.present[i]] != [i for i in range(len(axes)) if o.present[i]]:
            text = f"{text}.reshape({joined(own)}).transpose({joined(str(i) for i in order)})"
        if any(any(there) and not all(there) for there in some):
            full = [f"n{i}" if any(there) else "1" for part, there in zip(parts, some) for i in part]
            text = f"jnp.broadcast_to({text}.reshape({joined(own[i] for i in order)}), ({joined(full)})).reshape"
        else:
            text = f"{text}.reshape"
        present = (any(some[0]), any(some[1]))
        text = f"{text}({'rows' if present[0] else '1'}, {'cols' if present[1] else '1'})"
        views.append(View(names[o.node], present, text, kind_of(o), counted(o, parts)))
    out = "out"
    if moved and whole:
        back = [order.index(i) for i in range(len(axes))]
        out = f"out.reshape({joined(f'n{i}' for i in order)}).transpose({joined(str(i) for i in back)})"
    return Layout((Loop("rows"), Loop("cols", True)), tuple(views), out)


def counted(operand: Operand, parts: Sequence[Sequence[int]]) -> str:
    """Whether a position is that of a row or of a column."""
    if operand.node.op != "index" or not any(operand.present):
        return ""
    at = operand.present.index(True)
    return next((name for name, part in zip(("rows", "cols"), parts) if list(part) == [at]), "")


def times(indices: Sequence[int]) -> str:
    """The product of some extents."""
    return " * ".join(f"n{i}" for i in indices) or "1"


@dataclass(frozen=True)
class Result:
    """The type of what a stage returns, and of what its kernel writes."""

    root: Node

    @property
    def dtype(self) -> str:
        return NARROWED.get(self.root.dtype, self.root.dtype)

    def written(self, d: Choice) -> str:
        """The type a kernel writes; fractions are not lost outside of it."""
        if d["convert"] == "inside" and self.dtype in INSIDE:
            return self.dtype
        return "bool_" if self.dtype == "bool" else "int32" if self.dtype.startswith(("int", "uint")) else "float32"

    def stored(self, text: str, d: Choice) -> str:
        """A value as the kernel writes it: integers and truth values among the steps may have given it another type."""
        plain = all(n.dtype == "float32" for n in walk(self.root) if not n.is_given)
        return text if plain else f"{text}.astype(jnp.{self.written(d)})"

    def returned(self, text: str, d: Choice) -> str:
        """What the kernel wrote, in the type the caller expects."""
        return text if self.written(d).removesuffix("_") == self.dtype else f"{text}.astype(jnp.{self.dtype})"


@dataclass(frozen=True)
class Copied(Result):
    """What is only moved keeps its type."""

    def written(self, d: Choice) -> str:
        return "bool_" if self.dtype == "bool" else self.dtype


def narrow(root: Node, operands: Sequence[Operand]) -> set[str]:
    """The trait of kernels that could convert elements themselves."""
    kinds = {kind_of(o) for o in operands} | {NARROWED.get(root.dtype, root.dtype)}
    return {"narrow"} if kinds & INSIDE else set()


def along(x: Node, axis: int) -> tuple[tuple[Given, ...], bool]:
    """A tensor and its sizes before, along and after an axis, and whether anything comes after."""
    parts = {"outer": x.shape[:axis], "n": x.shape[axis : axis + 1], "inner": x.shape[axis + 1 :]}
    sizes = {name: product(part) for name, part in parts.items()}
    return (Given("x", x), *(Given(name, size) for name, size in sizes.items())), not sizes["inner"].is_one

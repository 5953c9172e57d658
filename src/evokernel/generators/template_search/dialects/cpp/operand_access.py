"""How loops read their operands: a pointer that moves along the innermost loop, a value that stays, or a position."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evokernel.generators.template_search.dialects.cpp import ELEMENTS
from evokernel.generators.template_search.dialects.cpp.common_decisions import position
from evokernel.generators.template_search.dialects.cpp.emit import function
from evokernel.generators.template_search.forms import Operand
from evokernel.generators.template_search.graph import TRANSCENDENTAL, Node, NoSketch, Num, walk
from evokernel.generators.template_search.sketch import Given

CONVERTED = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")
"""What is turned into float32 when read, and back when written; where float64 is among it, into that."""


@dataclass(frozen=True)
class Read:
    """An operand inside loops i0, i1 and so on, the last of which is the innermost."""

    node: Node
    name: str
    kind: str
    """The C type of its elements; nothing for a position."""
    inner: bool
    """Whether it changes along the innermost loop."""
    at: str
    """Where the innermost loop starts to read; of a position, the variable of its loop."""
    far: str
    """One element where the variables of all loops are known."""

    @property
    def start(self) -> str:
        """Its pointer where the innermost loop starts."""
        return self.name if self.at == "0" else f"{self.name} + {self.at}"

    @property
    def value(self) -> str:
        """What it is all along the innermost loop."""
        return f"float({self.name}[{self.at}])" if self.kind else f"float({self.at})"


@dataclass(frozen=True)
class Argument:
    """What an emitted function is called with: `full` is read through a pointer, `place` is a position, `scalar` stays."""

    kind: str
    name: str
    far: str
    read: Read | None = None


@dataclass(frozen=True)
class Call:
    """An emitted function and its arguments."""

    name: str
    args: tuple[Argument, ...]
    extra: str = ""

    @property
    def reads(self) -> tuple[Read, ...]:
        """The operands among its arguments."""
        return tuple(a.read for a in self.args if a.read is not None)


def reads_of(operands: Sequence[Operand]) -> tuple[Read, ...]:
    """The operands of a nest of loops: x0, x1 and so on."""
    found = []
    for i, operand in enumerate(operands):
        node, loops = operand.node, [g for g, there in enumerate(operand.present) if there]
        last = len(operand.present) - 1
        inner = last in loops
        if node.op == "index":
            variable = f"i{loops[0]}" if loops else "0"
            found.append(Read(node, f"x{i}", "", inner, variable, f"float({variable})"))
            continue
        if node.dtype not in CONVERTED:
            raise NoSketch(f"{node.dtype} tensors")
        outside = position([g for g in loops if g != last])
        at = f"{outside} * n{last}" if inner and outside != "0" else outside
        found.append(Read(node, f"x{i}", ELEMENTS[node.dtype], inner, at, f"float(x{i}[{position(loops)}])"))
    return tuple(found)


def argument(read: Read) -> Argument:
    """How an emitted function is handed an operand: through p_x0, as v_x0, or as a position counted from `begin`."""
    if not read.kind and read.inner:
        return Argument("place", "begin", read.far, read)
    return Argument("full" if read.inner else "scalar", f"{'p' if read.inner else 'v'}_{read.name}", read.far, read)


def leaves(reads: Sequence[Read]) -> tuple[Given, ...]:
    """The tensors among operands, as arguments of a stage."""
    return tuple(Given(r.name, r.node) for r in reads if r.kind)


def precision(root: Node) -> dict[str, object]:
    """Which halves values are rounded to on the way, and whether all is computed in double precision.

    Raises NoSketch for a result that floats are not turned into.
    """
    if root.dtype not in CONVERTED:
        raise NoSketch(f"a {root.dtype} result")
    nodes = walk(root)
    is_double = root.dtype == "float64" or any(n.op == "leaf" and n.dtype == "float64" for n in nodes)
    if is_double and any(n.op in TRANSCENDENTAL for n in nodes):
        raise NoSketch("transcendental functions in float64")
    return {"is_double": is_double, "rounds": sorted({n.name for n in nodes if n.op == "cast" and n.name in ("float16", "bfloat16")})}


def called(name: str, tree: Node, args: Mapping[Node, Argument], free: Mapping[Num, str]) -> tuple[str, Call]:
    """The text of a function for a tree, and its call."""
    names = {node: f"a{i}" for i, node in enumerate(args)}
    extra = "".join(f", {s}" for s in free.values())
    return function(name, tree, names, free), Call(name, tuple(args.values()), extra if args else extra[2:])

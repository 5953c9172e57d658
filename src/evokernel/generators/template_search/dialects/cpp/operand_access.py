"""How loops read their operands: through a pointer along the innermost loop, as a constant value, or as a position."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evokernel.generators.template_search.dialects.cpp import ELEMENTS
from evokernel.generators.template_search.dialects.cpp.emit import emit_function
from evokernel.generators.template_search.dialects.loop_text import flat_index
from evokernel.generators.template_search.graph import TRANSCENDENTAL, Node, Num, UnsupportedPattern, walk
from evokernel.generators.template_search.kernel_template import StageArgument
from evokernel.generators.template_search.patterns import Operand

CONVERTED = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")
"""Types that are converted to float32 when read and back when written; to float64 if one of them is float64."""


@dataclass(frozen=True)
class OperandRead:
    """An operand inside the loops `i0`, `i1`, ...; the last loop is the innermost."""

    node: Node
    name: str
    kind: str
    """The C++ type of its elements; empty for a position."""
    inner: bool
    """Whether it changes along the innermost loop."""
    at: str
    """The offset where the innermost loop starts to read; of a position, the variable of its loop."""
    element_text: str
    """The text of one element, from the variables of all loops."""
    numbers: tuple[StageArgument, ...] = ()
    """Of a slice: its offset and strides."""

    @property
    def start(self) -> str:
        """The pointer at the start of the innermost loop."""
        return self.name if self.at == "0" else f"{self.name} + {self.at}"

    @property
    def value(self) -> str:
        """The constant value along the innermost loop."""
        return f"float({self.name}[{self.at}])" if self.kind else f"float({self.at})"


@dataclass(frozen=True)
class CallArgument:
    """An argument of an emitted function: `full` is read through a pointer, `place` is a position, `scalar` is constant."""

    kind: str
    name: str
    element_text: str
    read: OperandRead | None = None


@dataclass(frozen=True)
class FunctionCall:
    """A call of an emitted function with its arguments."""

    name: str
    args: tuple[CallArgument, ...]
    extra: str = ""

    @property
    def reads(self) -> tuple[OperandRead, ...]:
        """The operands among its arguments."""
        return tuple(a.read for a in self.args if a.read is not None)


def plan_reads(operands: Sequence[Operand]) -> tuple[OperandRead, ...]:
    """How a loop nest reads its operands `x0`, `x1`, ..."""
    reads = []
    for i, operand in enumerate(operands):
        node, loops = operand.node, [g for g, there in enumerate(operand.present) if there]
        last = len(operand.present) - 1
        inner = last in loops
        if node.op == "index":
            variable = f"i{loops[0]}" if loops else "0"
            reads.append(OperandRead(node, f"x{i}", "", inner, variable, f"float({variable})"))
            continue
        if node.dtype not in CONVERTED:
            raise UnsupportedPattern(f"{node.dtype} tensors")
        if operand.strides:
            reads.append(read_slice(f"x{i}", operand, loops))
            continue
        outside = flat_index([g for g in loops if g != last])
        at = f"{outside} * n{last}" if inner and outside != "0" else outside
        reads.append(OperandRead(node, f"x{i}", ELEMENTS[node.dtype], inner, at, f"float(x{i}[{flat_index(loops)}])"))
    return tuple(reads)


def read_slice(name: str, operand: Operand, loops: Sequence[int]) -> OperandRead:
    """How loops read a slice in place: from its offset, with the strides of its leaf."""
    last = len(operand.present) - 1
    if last in loops and not operand.strides[last].is_one:
        raise UnsupportedPattern("a slice whose elements are not contiguous")
    outer = [g for g in loops if g != last]
    at = " + ".join([f"{name}_offset", *(f"i{g} * {name}_stride{g}" for g in outer)])
    element = f"{at} + i{last}" if last in loops else at
    numbers = (
        StageArgument(f"{name}_offset", operand.offset),
        *(StageArgument(f"{name}_stride{g}", operand.strides[g]) for g in outer),
    )
    return OperandRead(operand.node, name, ELEMENTS[operand.node.dtype], last in loops, at, f"float({name}[{element}])", numbers)


def make_argument(read: OperandRead) -> CallArgument:
    """The argument for an operand: the pointer `p_x0`, the value `v_x0`, or a position counted from `begin`."""
    if not read.kind and read.inner:
        return CallArgument("place", "begin", read.element_text, read)
    return CallArgument("full" if read.inner else "scalar", f"{'p' if read.inner else 'v'}_{read.name}", read.element_text, read)


def tensor_arguments(reads: Sequence[OperandRead]) -> tuple[StageArgument, ...]:
    """The tensors among the operands, as arguments of a stage."""
    tensors = (StageArgument(r.name, r.node.args[0] if r.numbers else r.node) for r in reads if r.kind)
    return (*tensors, *(number for r in reads for number in r.numbers))


def precision_variables(root: Node) -> dict[str, object]:
    """The 16-bit types that values are rounded to in between, and whether everything is computed in double precision.

    Raises UnsupportedPattern for a result type that floats are not converted to.
    """
    if root.dtype not in CONVERTED:
        raise UnsupportedPattern(f"a {root.dtype} result")
    nodes = walk(root)
    is_double = root.dtype == "float64" or any(n.op == "leaf" and n.dtype == "float64" for n in nodes)
    if is_double and any(n.op in TRANSCENDENTAL for n in nodes):
        raise UnsupportedPattern("transcendental functions in float64")
    if is_double and any(n.op == "leaf" and n.dtype == "float32" for n in nodes):
        raise UnsupportedPattern("float32 and float64 tensors together")
    return {"is_double": is_double, "rounds": sorted({n.name for n in nodes if n.op == "cast" and n.name in ("float16", "bfloat16")})}


def emit_call(name: str, tree: Node, args: Mapping[Node, CallArgument], free: Mapping[Num, str]) -> tuple[str, FunctionCall]:
    """The source of a function for a tree, and its call."""
    names = {node: f"a{i}" for i, node in enumerate(args)}
    extra = "".join(f", {s}" for s in free.values())
    return emit_function(name, tree, names, free), FunctionCall(name, tuple(args.values()), extra if args else extra[2:])

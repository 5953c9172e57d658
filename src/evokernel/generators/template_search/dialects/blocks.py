"""How a block of an iteration space reads its operands: positions along its loops, offsets and masks as text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from evokernel.generators.template_search.graph import Node
from evokernel.generators.template_search.kernel_template import StageArgument
from evokernel.generators.template_search.patterns import Operand


@dataclass(frozen=True)
class BlockAxes:
    """The loops of an iteration space, divided between the rows and the columns of a two-dimensional block.

    Inside a kernel `k` is the flat position over the row loops, of which there are `rows`, and `r` that over the column loops, `cols`.
    """

    rows: tuple[int, ...]
    cols: tuple[int, ...] = ()

    @property
    def row_count(self) -> str:
        return " * ".join(f"n{i}" for i in self.rows) or "1"

    @property
    def col_count(self) -> str:
        return " * ".join(f"n{i}" for i in self.cols) or "1"

    def mask(self, loops: Sequence[int]) -> str:
        """The mask of a tensor that changes along some loops."""
        return " & ".join(name for name, own in (("km", self.rows), ("rm", self.cols)) if set(own) & set(loops))

    def offset(self, loops: Sequence[int]) -> str:
        """The offset in a row-major tensor over some loops."""
        text, at = "", 0
        while at < len(loops):
            for name, count, own in (("k", "rows", self.rows), ("r", "cols", self.cols), (f"i{loops[at]}", f"n{loops[at]}", (loops[at],))):
                if own and tuple(loops[at : at + len(own)]) == own:
                    text = f"({text} * {count} + {name})" if text else name
                    at += len(own)
                    break
        return text or "0"


def split_position(flat: str, loops: Sequence[int], text: str, divide: str = "//") -> list[str]:
    """The lines that compute the positions `i0`, `i1`, ... along some loops from a flat position, as far as the text uses them."""
    lines, rest = [], flat
    wanted = {int(number) for number in re.findall(r"\bi(\d+)\b", text)} & set(loops)
    for at in reversed(range(len(loops))):
        i = loops[at]
        if not wanted & set(loops[: at + 1]):
            break
        if i in wanted:
            lines.append(f"i{i} = {rest}" if at == 0 else f"i{i} = {rest} % n{i}")
        if wanted & set(loops[:at]):
            lines.append(f"q{i} = {rest} {divide} n{i}")
        rest = f"q{i}"
    return lines


@dataclass(frozen=True)
class BlockRead:
    """An operand of the steps in a block."""

    node: Node
    name: str
    offset: str
    mask: str
    arguments: tuple[StageArgument, ...]
    """The tensor and the numbers that it is read with."""
    has_cols: bool
    """Whether it changes along the columns of a block."""
    loops: tuple[int, ...]
    """The loops along which it changes."""

    @property
    def value(self) -> str:
        """The text of its value as an argument of a call."""
        return f"v_{self.name}"


R = TypeVar("R", bound=BlockRead)
MakeRead = Callable[[Node, str, str, str, tuple[StageArgument, ...], bool, tuple[int, ...]], R]


def plan_reads(operands: Sequence[Operand], axes: BlockAxes, make_read: MakeRead[R]) -> tuple[R, ...]:
    """How a block reads its operands `x0`, `x1`, ...; `make_read` is the language's class of reads."""
    return tuple(plan_read(f"x{i}", operand, axes, make_read) for i, operand in enumerate(operands))


def plan_read(name: str, operand: Operand, axes: BlockAxes, make_read: MakeRead[R]) -> R:
    """How a block reads one operand; a slice is read in place, from its offset and with the strides of its leaf."""
    node, loops = operand.node, tuple(i for i, there in enumerate(operand.present) if there)
    mask, has_cols = axes.mask(loops), bool(set(axes.cols) & set(loops))
    if node.op == "index":
        return make_read(node, name, axes.offset(loops[:1]) if loops else "k * 0", mask, (), has_cols, loops)
    if operand.strides:
        offset = " + ".join([f"{name}_offset", *(f"{axes.offset([i])} * {name}_stride{i}" for i in loops)])
        numbers = (
            StageArgument(f"{name}_offset", operand.offset),
            *(StageArgument(f"{name}_stride{i}", operand.strides[i]) for i in loops),
        )
        return make_read(node, name, offset, mask, (StageArgument(name, node.args[0]), *numbers), has_cols, loops)
    return make_read(node, name, axes.offset(loops), mask, (StageArgument(name, node),), has_cols, loops)


def read_arguments(reads: Sequence[BlockRead]) -> tuple[StageArgument, ...]:
    """The tensors of the operands, then their numbers."""
    arguments = [g for read in reads for g in read.arguments]
    return (*(g for g in arguments if isinstance(g.value, Node)), *(g for g in arguments if not isinstance(g.value, Node)))


def call_text(function: str, names: Mapping[Node, str], numbers: Sequence[str]) -> str:
    """A call of an emitted function."""
    return f"{function}({', '.join([*names.values(), *numbers])})"

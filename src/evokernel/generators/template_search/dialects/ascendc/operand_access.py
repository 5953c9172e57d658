"""How loops read their operands: a tile of rows, a row that all share, or one number per row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evokernel.generators.template_search.dialects.ascendc.common_decisions import position
from evokernel.generators.template_search.dialects.ascendc.emit import Value
from evokernel.generators.template_search.forms import Operand
from evokernel.generators.template_search.graph import Node, NoSketch
from evokernel.generators.template_search.sketch import Given

TYPES = {"float32": "float", "float16": "half", "bfloat16": "bfloat16_t", "int32": "int32_t", "uint8": "uint8_t", "bool": "uint8_t"}
"""What is turned into float when it is in local memory, and back before it leaves."""
PER_BLOCK = {"float": 8, "int32_t": 8, "half": 16, "bfloat16_t": 16, "uint8_t": 32}
"""Elements in 32 bytes."""


@dataclass(frozen=True)
class Read:
    """An operand inside loops i0, i1 and so on, the last of which is the innermost."""

    node: Node
    name: str
    inner: bool
    """Whether it changes along the innermost loop."""
    full: bool
    """Whether it changes along all loops."""
    shared: bool
    """Whether it changes along the innermost loop alone, and can be used as it lies in memory."""
    at: str
    """Where its row starts in memory, or where its number lies; by the indices of the loops."""
    T: str = "float"

    @property
    def local(self) -> str:
        """Its buffer in local memory."""
        return f"{self.name}_"

    @property
    def stage(self) -> str:
        """The buffer it is copied to: its own, or one for elements that are converted from there."""
        return self.local if self.T == "float" else f"{self.name}_raw"

    @property
    def staged(self) -> tuple[str, str]:
        """That buffer and its type."""
        return self.stage, self.T

    @property
    def tile(self) -> str:
        """Its buffer where several rows lie in it."""
        return f"{self.name}_tile"

    @property
    def staged_tile(self) -> tuple[str, str]:
        """That buffer and its type."""
        return self.tile, self.T

    def single(self, at: str) -> str:
        """One element as a number."""
        return f"{'' if self.T == 'float' else 'static_cast<float>'}(g_{self.name}.GetValue({at}))"

    @property
    def value(self) -> Value:
        """What instructions are called with."""
        return Value(self.local, True) if self.inner else Value(f"v_{self.name}", False)


def reads_of(operands: Sequence[Operand]) -> tuple[Read, ...]:
    """The operands of a nest of loops: x0, x1 and so on."""
    found = []
    for i, operand in enumerate(operands):
        node, last = operand.node, len(operand.present) - 1
        if node.op == "index":
            raise NoSketch("positions along an axis")
        if node.dtype not in TYPES:
            raise NoSketch(f"{node.dtype} tensors")
        loops = [g for g, there in enumerate(operand.present) if there]
        inner = last in loops
        outside = position([g for g in loops if g != last])
        at = f"{outside} * n{last}" if inner and outside != "0" else outside
        found.append(Read(node, f"x{i}", inner, operand.is_full, loops == [last] and node.dtype == "float32", at, TYPES[node.dtype]))
    return tuple(found)


def leaves(reads: Sequence[Read]) -> tuple[Given, ...]:
    """The tensors among operands, as arguments of a stage."""
    return tuple(Given(r.name, r.node) for r in reads)

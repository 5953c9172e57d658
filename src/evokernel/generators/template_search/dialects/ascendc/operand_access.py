"""How loops read their operands: a tile of rows, a row shared by all, or one number per row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evokernel.generators.template_search.dialects.ascendc.emit import StepValue
from evokernel.generators.template_search.dialects.loop_text import flat_index
from evokernel.generators.template_search.graph import Node, UnsupportedPattern
from evokernel.generators.template_search.kernel_template import StageArgument
from evokernel.generators.template_search.patterns import Operand

TYPES = {"float32": "float", "float16": "half", "bfloat16": "bfloat16_t", "int32": "int32_t", "int64": "int64_t", "uint8": "uint8_t",
         "bool": "uint8_t"}  # fmt: skip
"""Types that are converted to float in local memory, and back before they are copied out."""
PER_BLOCK = {"float": 8, "int32_t": 8, "int64_t": 4, "half": 16, "bfloat16_t": 16, "uint8_t": 32}
"""Elements in 32 bytes."""


@dataclass(frozen=True)
class OperandRead:
    """An operand inside the loops `i0`, `i1`, ...; the last loop is the innermost."""

    node: Node
    name: str
    inner: bool
    """Whether it changes along the innermost loop."""
    full: bool
    """Whether it changes along all loops."""
    shared: bool
    """Whether it changes only along the innermost loop, and needs no conversion."""
    at: str
    """The offset of its row or of its number, from the loop indices."""
    T: str = "float"

    @property
    def local(self) -> str:
        """The name of its buffer in local memory."""
        return f"{self.name}_"

    @property
    def stage(self) -> str:
        """The name of the buffer it is copied to: its own, or one whose elements are converted afterwards."""
        return self.local if self.T == "float" else f"{self.name}_raw"

    @property
    def stage_buffer(self) -> tuple[str, str]:
        """The name of that buffer and its type."""
        return self.stage, self.T

    @property
    def tile(self) -> str:
        """The name of its buffer for several rows."""
        return f"{self.name}_tile"

    @property
    def tile_buffer(self) -> tuple[str, str]:
        """The name of that buffer and its type."""
        return self.tile, self.T

    def single(self, at: str) -> str:
        """The text of one element as a float."""
        return f"{'' if self.T == 'float' else 'static_cast<float>'}(g_{self.name}.GetValue({at}))"

    @property
    def value(self) -> StepValue:
        """The argument for instructions."""
        return StepValue(self.local, True) if self.inner else StepValue(f"v_{self.name}", False)


def plan_reads(operands: Sequence[Operand]) -> tuple[OperandRead, ...]:
    """How a loop nest reads its tensors `x0`, `x1`, ...; positions are computed, not read."""
    reads = []
    for i, operand in enumerate(operands):
        node, last = operand.node, len(operand.present) - 1
        if node.op == "index":
            continue
        if node.dtype not in TYPES:
            raise UnsupportedPattern(f"{node.dtype} tensors")
        loops = [g for g, there in enumerate(operand.present) if there]
        inner = last in loops
        outside = flat_index([g for g in loops if g != last])
        at = f"{outside} * n{last}" if inner and outside != "0" else outside
        reads.append(OperandRead(node, f"x{i}", inner, operand.is_full, loops == [last] and node.dtype == "float32", at, TYPES[node.dtype]))
    return tuple(reads)


def outer_positions(operands: Sequence[Operand]) -> dict[Node, StepValue]:
    """The positions along loops other than the innermost one: each is one number."""
    positions = {}
    for operand in operands:
        if operand.node.op == "index" and not (operand.present and operand.present[-1]):
            loop = next((g for g, there in enumerate(operand.present) if there), None)
            positions[operand.node] = StepValue("0.0f" if loop is None else f"static_cast<float>(i{loop})", False)
    return positions


def tensor_arguments(reads: Sequence[OperandRead]) -> tuple[StageArgument, ...]:
    """The tensors among the operands, as arguments of a stage."""
    return tuple(StageArgument(r.name, r.node) for r in reads)

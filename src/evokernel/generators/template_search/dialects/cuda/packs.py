"""How a thread reads the operands of a pack of neighbouring elements: V elements at once, or one value for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from evokernel.generators.template_search.dialects.blocks import BlockAxes, BlockRead, plan_reads, split_position
from evokernel.generators.template_search.dialects.cuda.emit import TYPES
from evokernel.generators.template_search.graph import Num
from evokernel.generators.template_search.kernel_template import TemplateVariables
from evokernel.generators.template_search.patterns import KernelPattern

NARROW = "(1ll << 31)"
"""With fewer elements than this, positions and steps of loops are numbers of 32 bits."""


@dataclass(frozen=True)
class PackRead(BlockRead):
    """An operand of the steps in a pack."""

    last: int
    """The loop along which the elements of a pack are neighbours."""

    @property
    def is_pack(self) -> bool:
        """Whether the elements of a pack read different elements of it."""
        return self.last in self.loops

    @property
    def is_index(self) -> bool:
        return self.node.op == "index"

    @property
    def read_expression(self) -> str:
        """The expression that reads it."""
        if self.is_index:
            return f"(float)({self.offset})"
        return f"load<V>({self.name} + {self.offset})" if self.is_pack else f"(float){self.name}[{self.offset}]"

    @property
    def kind(self) -> str:
        """The type of what is read."""
        return f"Pack<{TYPES[self.node.dtype]}, V>" if self.is_pack and not self.is_index else "float"

    @property
    def line(self) -> str:
        """The statement that reads it."""
        return f"const {self.kind} v_{self.name} = {self.read_expression};"

    @property
    def value(self) -> str:
        if not self.is_pack:
            return f"v_{self.name}"
        return f"(v_{self.name} + (float)v)" if self.is_index else f"(float)v_{self.name}.at[v]"


def plan_packs(pattern: KernelPattern, axes: BlockAxes) -> tuple[PackRead, ...]:
    """How a thread reads the operands of a pattern."""
    return plan_reads(pattern.operands, axes, partial(PackRead, last=len(pattern.axes) - 1))


def position_lines(flat: str, loops: Sequence[int], text: str) -> list[str]:
    """The statements that compute positions along some loops from a flat one."""
    return [f"const I {line};" for line in split_position(flat, loops, text, "/")]


def launch_conditions(pattern: KernelPattern, reads: Sequence[PackRead]) -> TemplateVariables:
    """When packs of VECTOR elements are aligned and end with their row, and when 32 bits suffice for positions."""
    last = len(pattern.axes) - 1
    whole, narrow = ([f"n{last} % VECTOR == 0"] if last >= 0 else []), ["rows * cols < " + NARROW]
    for read in reads:
        numbers = [g.name for g in read.arguments if isinstance(g.value, Num)]
        if numbers:
            strides = [f"{read.name}_stride{i}" for i in read.loops]
            narrow.append(f"{read.name}_offset + {strides[0] if strides else 0} * n{read.loops[0] if strides else 0} < {NARROW}")
            whole += [f"{name} % VECTOR == 0" for name in numbers if name != f"{read.name}_stride{last}" and read.is_pack]
            whole += [f"{read.name}_stride{last} == 1"] if read.is_pack else []
    return {"whole": " && ".join(whole) or "false", "narrow": " && ".join(narrow)}

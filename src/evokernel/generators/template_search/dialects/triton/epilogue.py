"""The elementwise steps after a product, convolution or pooling: a function of the result, and how a block reads its operands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evokernel.generators.template_search.dialects.descriptions import require_float32
from evokernel.generators.template_search.dialects.loop_text import flat_index, number_arguments
from evokernel.generators.template_search.dialects.triton.emit import emit_function
from evokernel.generators.template_search.graph import walk
from evokernel.generators.template_search.kernel_template import StageArgument, TemplateVariables, name_free_numbers
from evokernel.generators.template_search.patterns import RESULT, KernelPattern


@dataclass(frozen=True)
class EpilogueRead:
    """An operand of an epilogue, read at the positions `i0`, `i1` and `i2` along the loops of the result."""

    name: str
    offset: str
    mask: str

    @property
    def line(self) -> str:
        """The statement that reads it."""
        mask = f", mask={self.mask}, other=0" if self.mask else ""
        return f"v_{self.name} = tl.load({self.name} + {self.offset}{mask}).to(tl.float32)"


def describe_epilogue(pattern: KernelPattern, masks: Sequence[str]) -> tuple[tuple[StageArgument, ...], TemplateVariables]:
    """The arguments and variables of an epilogue; `masks` names the mask of each loop of the result, empty where there is none."""
    require_float32(pattern.root)
    after = pattern.epilogue
    if after is None:
        return (), {"after": (), "after_reads": [], "after_call": "", "emit": emit_function}
    names = {o.node: f"x{i}" for i, o in enumerate(pattern.operands)}
    free = name_free_numbers(after)
    result = next(n for n in walk(after) if n.op == "leaf" and n.name == RESULT)
    reads = []
    for operand in pattern.operands:
        loops = [i for i, there in enumerate(operand.present) if there]
        mask = " & ".join(dict.fromkeys(masks[i] for i in loops if masks[i]))
        reads.append(EpilogueRead(names[operand.node], flat_index(loops), mask))
    texts = ["acc", *(f"v_{name}" for name in names.values()), *free.values()]
    variables = {
        "after": (after, {result: "r", **names}, free), "after_reads": reads, "after_call": f"after({', '.join(texts)})",
        "emit": emit_function,
    }  # fmt: skip
    return (*(StageArgument(name, node) for node, name in names.items()), *number_arguments(free)), variables

"""Matrix products, plain or batched, either factor transposed, with elementwise steps after them."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Choice, Decision, one_of
from evokernel.generators.template_search.dialects.triton.common_decisions import PRECISION, STAGES, WARPS
from evokernel.generators.template_search.dialects.triton.epilogue import describe_epilogue
from evokernel.generators.template_search.graph import Node, UnsupportedPattern
from evokernel.generators.template_search.kernel_template import KernelTemplate, PatternDescription, StageArgument
from evokernel.generators.template_search.patterns import KernelPattern

HALVES = ("float16", "bfloat16")
FACTORS = ("float32", *HALVES, "int8", "uint8")


def describe(pattern: KernelPattern) -> PatternDescription:
    """Describes a product by its factors, sizes and epilogue."""
    (left, right), (batch, rows, cols) = pattern.tensors, (axis.extent for axis in pattern.axes)
    depth = pattern.main_nodes[0].args[0].shape[-1]
    arguments, variables = describe_epilogue(pattern, ("", "mm", "nm"))
    sizes = (StageArgument("n0", batch), StageArgument("n1", rows), StageArgument("n2", cols), StageArgument("depth", depth))
    variables = {
        **variables, "dot_type": find_dot_type(pattern, left, right), "rows_a": pattern.in_order[0], "rows_b": pattern.in_order[1],
        "shared_b": len(right.shape) == 2,
    }  # fmt: skip
    traits = {"float32"} if variables["dot_type"] == "float32" else set()
    traits |= {"column"} if cols.is_one and pattern.in_order[0] else set()
    return PatternDescription(
        (StageArgument("left", left), StageArgument("right", right), *arguments, *sizes), variables, frozenset(traits)
    )


def find_dot_type(pattern: KernelPattern, left: Node, right: Node) -> str:
    """The type in which the factors are multiplied: their own half precision, or float32."""
    if left.dtype not in FACTORS or right.dtype not in FACTORS or "int" in pattern.main_nodes[0].dtype:
        raise UnsupportedPattern(f"a product of {left.dtype} and {right.dtype}")
    return left.dtype if left.dtype == right.dtype and left.dtype in HALVES else "float32"


TILE = ("16", "32", "64", "128", "256")
TILES = (Decision("rows", TILE), Decision("cols", TILE), Decision("chunk", ("16", "32", "64", "128")))


def is_tiled(choice: Choice) -> bool:
    """Whether blocks are multiplied."""
    return choice.get("algorithm") != "sums"


SUMS = (
    Decision("algorithm", ("dot", "sums"), trait="column"),
    Decision("rows", ("1", "2", "4", "8"), one_of("algorithm", "sums")),
    Decision("chunk", ("256", "512", "1024", "2048"), one_of("algorithm", "sums")),
)
"""The product with a vector: `sums` adds up rows without the tensor cores."""
template = KernelTemplate(
    decisions=(
        *SUMS,
        *(decision._replace(when=is_tiled) for decision in (*TILES, Decision("group", ("1", "4", "8")), PRECISION, STAGES)),
        WARPS,
    ),
    describe=describe,
)

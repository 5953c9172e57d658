"""Matrix products, plain or batched, either factor transposed, with elementwise steps after them."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Choice, Decision
from evokernel.generators.template_search.dialects.cpp.common_decisions import (
    ACC,
    ALIAS,
    LANES,
    MATH,
    SIMD,
    TAIL,
    THREADS,
    UNROLL,
    has_explicit_vectors,
    has_register_tile,
    is_multi_element,
)
from evokernel.generators.template_search.dialects.cpp.gemm_common import GEMM, PANELS, build_epilogue
from evokernel.generators.template_search.dialects.loop_text import number_arguments
from evokernel.generators.template_search.graph import UnsupportedPattern
from evokernel.generators.template_search.kernel_template import KernelTemplate, PatternDescription, StageArgument
from evokernel.generators.template_search.patterns import KernelPattern


def describe(pattern: KernelPattern) -> PatternDescription:
    """Describes a product by sizes, strides and epilogue, whose operands are read by rows, once per row or once."""
    (a, b), (rows_a, rows_b) = pattern.tensors, pattern.in_order
    if any(n.dtype != "float32" for n in (a, b, pattern.root)):
        raise UnsupportedPattern("a product of other than float32")
    batch, m, n = (axis.extent for axis in pattern.axes)
    k = a.shape[-1] if rows_a else a.shape[-2]
    after = build_epilogue(pattern)
    operands = []
    for o in pattern.operands:
        name, (by_batch, by_row, by_column) = after.operands[o.node], o.present
        outer = {(True, True): "(o * M + r)", (True, False): "o", (False, True): "r", (False, False): "0"}[by_batch, by_row]
        operands.append({"name": name, "along": by_column, "start": f"{name} + {outer} * N" if by_column else f"{name}[{outer}]"})
    args = [{"kind": "full" if o["along"] else "scalar", "name": f"row_{o['name']}"} for o in operands]
    variables = {
        "rows_a": rows_a or m.is_one, "rows_b": rows_b and not n.is_one, "strides_a": "K, 1" if rows_a else "1, M",
        "strides_b": "N, 1" if rows_b and not n.is_one else "1, K", "step_a": "K" if rows_a else "1",
        "batched": not batch.is_one, "batched_b": len(b.shape) > 2, "epilogue": after.text, "operands": operands,
        "has_math": pattern.uses_math,
        "f": {"name": "after", "args": [{"kind": "full", "name": "dest"}, *args], "extra": after.extra},
    }  # fmt: skip
    sizes = (StageArgument("batch", batch), StageArgument("M", m), StageArgument("N", n), StageArgument("K", k))
    arguments = (
        StageArgument("left", a),
        StageArgument("right", b),
        *(StageArgument(after.operands[o.node], o.node) for o in pattern.operands),
        *sizes,
    )
    # Both factors are contiguous along the summed axis: one vector loop along it.
    dots = variables["rows_a"] and not variables["rows_b"]
    traits = {"epilogue": bool(after.text), "batched": not batch.is_one, "math": pattern.uses_math, "dots": dots}
    return PatternDescription(
        (*arguments, *number_arguments(after.free)), variables, frozenset(name for name, holds in traits.items() if holds)
    )


def is_unrolled(choice: Choice) -> bool:
    """Whether several vectors are accumulated in parallel."""
    return choice.get("simd") == "vec" and choice.get("gemm") == "dot"


TAILS = (
    TAIL._replace(when=has_register_tile),
    TAIL._replace(options=("scalar", "steps", "assume"), when=lambda choice: is_unrolled(choice) and choice.get("unroll", "1") != "1"),
    TAIL._replace(options=("scalar", "masked", "assume"), when=has_explicit_vectors, trait="epilogue"),
    TAIL._replace(options=("scalar", "assume"), when=is_multi_element),
)
template = KernelTemplate(
    decisions=(
        *GEMM,
        Decision("fusion", ("pass", "8", "32", "128", "panel"), has_register_tile, trait="epilogue"),
        Decision("fusion", ("pass", "8", "32", "128"), trait="epilogue"),
        SIMD._replace(when=lambda choice: not has_register_tile(choice)), SIMD._replace(trait="epilogue"), LANES,
        UNROLL._replace(when=is_unrolled, trait="dots"), *TAILS, PANELS,
        MATH, ACC._replace(when=lambda choice: choice.get("gemm") == "dot"), ALIAS,
        THREADS._replace(trait="batched"),
    ),
    describe=describe,
)  # fmt: skip

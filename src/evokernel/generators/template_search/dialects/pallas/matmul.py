"""Matrix products, plain or batched, block by block on the matrix unit, with elementwise steps on each block of the result."""

from __future__ import annotations

from dataclasses import dataclass

from evokernel.generators.template_search.decisions import Choice, Decision, one_of
from evokernel.generators.template_search.dialects.pallas.common_decisions import (
    CONVERT,
    DIVIDE,
    LIMIT,
    PRECISION,
    SEMANTICS,
    has_tensor_division,
)
from evokernel.generators.template_search.dialects.pallas.emit import emit_function
from evokernel.generators.template_search.graph import UnsupportedPattern, walk
from evokernel.generators.template_search.kernel_template import (
    KernelTemplate,
    PatternDescription,
    StageArgument,
    name_free_numbers,
    name_operands,
)
from evokernel.generators.template_search.patterns import RESULT, KernelPattern


@dataclass(frozen=True)
class View:
    """An operand of the epilogue, by the loops (batch, rows, columns) along which it changes."""

    name: str
    present: tuple[bool, bool, bool]

    @property
    def shape(self) -> tuple[str, ...]:
        return self.over("count", "m", "n")

    def over(self, *texts: str, absent: str = "1") -> tuple[str, ...]:
        """One text per loop; `absent` for loops that the tensor does not follow."""
        return tuple(text if there else absent for text, there in zip(texts, self.present[-len(texts) :]))


def has_k_chunks(choice: Choice) -> bool:
    """Whether a product is accumulated over several grid steps."""
    return choice.get("chunk", "all") != "all"


def describe(pattern: KernelPattern) -> PatternDescription:
    """Describes a product by its factors, plain or batched, and its epilogue."""
    (a, b), (rows_a, rows_b) = pattern.tensors, pattern.in_order
    if pattern.root.dtype not in ("float32", "bfloat16"):
        raise UnsupportedPattern(f"a product with a {pattern.root.dtype} result")
    names, free = name_operands(pattern.operands), name_free_numbers(pattern.root)
    result = next((n for n in walk(pattern.epilogue) if n.name == RESULT), None) if pattern.epilogue else None

    def after(divide: str) -> str:
        if pattern.epilogue is None or result is None:
            return ""
        return emit_function("after", pattern.epilogue, {result: "total", **names}, divide, numbers=free)

    after("exact")
    is_batched = len(b.shape) > 2
    views = [View(names[o.node], (o.present[0], o.present[1], o.present[2])) for o in pattern.operands]
    variables = {
        "after": after, "operands": views, "batched": is_batched, "left": "mk" if rows_a else "km", "right": "kn" if rows_b else "nk",
        "widened": [name for name, x in (("a", a), ("b", b)) if x.dtype != "float32"], "out_type": pattern.root.dtype,
    }  # fmt: skip
    arguments = (
        StageArgument("a", a),
        StageArgument("b", b),
        *(StageArgument(names[o.node], o.node) for o in pattern.operands),
        *(StageArgument(s, n) for n, s in free.items()),
    )
    traits = {
        "batched" if is_batched else "plain": True, "divide": pattern.epilogue is not None and has_tensor_division(pattern.epilogue),
        "narrow": all(x.dtype in ("bfloat16", "int8") for x in (a, b)), "rounded": pattern.root.dtype != "float32",
    }  # fmt: skip
    return PatternDescription(arguments, variables, frozenset(name for name, holds in traits.items() if holds))


template = KernelTemplate(
    decisions=(
        Decision("left", ("mk", "km"), trait="plain"),
        Decision("right", ("kn", "nk")),
        Decision("rows", ("32", "64", "128", "256", "512"), one_of("left", "mk"), trait="plain"),
        Decision("rows", ("128", "256", "384", "512"), one_of("left", "km"), trait="plain"),
        Decision("cols", ("64", "128", "256", "384", "512", "768"), trait="plain"),
        Decision("chunk", ("all", "128", "256", "512"), trait="plain"),
        Decision("fill", ("pad", "mask", "last", "none"), has_k_chunks, trait="plain"),
        Decision("acc", ("scratch", "out"), has_k_chunks, trait="plain", excluded_by="rounded"),
        Decision("order", ("rows", "cols"), trait="plain"),
        Decision("batch", ("1", "2", "4", "8", "16"), trait="batched"),
        Decision("rows", ("all", "32", "60", "64", "128"), trait="batched"),
        Decision("cols", ("all", "128", "256"), trait="batched"),
        Decision("loop", ("unrolled", "loop", "together"), trait="batched"),
        DIVIDE, CONVERT,
        PRECISION._replace(options=("highest", "default", "split", "thirds"), when=lambda choice: choice.get("convert") != "inside"),
        SEMANTICS, LIMIT,
    ),
    describe=describe,
)  # fmt: skip

"""A convolution over one to three axes, plain or transposed, with elementwise steps after it.

Strided images are split into phases, and a transposed convolution uses a mirrored window over an image with zeros between its elements:
every tap is then a shift of a flat image. Taps are collected into patches before or inside the kernel, or accumulated one by one. Images
that do not fit into VMEM are read in strips.
"""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Choice, Decision, one_of
from evokernel.generators.template_search.dialects.pallas.common_decisions import DIVIDE, LIMIT, PRECISION, SEMANTICS, has_tensor_division
from evokernel.generators.template_search.dialects.pallas.emit import emit_function
from evokernel.generators.template_search.dialects.pallas.windows import format_tuples, window_settings
from evokernel.generators.template_search.graph import Node, UnsupportedPattern, walk
from evokernel.generators.template_search.kernel_template import (
    KernelTemplate,
    PatternDescription,
    StageArgument,
    name_free_numbers,
    name_operands,
)
from evokernel.generators.template_search.patterns import RESULT, KernelPattern


def describe(pattern: KernelPattern) -> PatternDescription:
    """Describes a convolution by image, weights, settings and the operands of its epilogue, each by the loops it follows."""
    (main,) = pattern.main_nodes
    x, w = pattern.tensors
    if any(t.dtype != "float32" for t in (x, w)) or pattern.root.dtype != "float32":
        raise UnsupportedPattern("a convolution of other than float32")
    rank, tail = len(main.shape) - 2, pattern.epilogue
    texts, setting_arguments = window_settings(pattern.numbers)
    strides, paddings, dilations, output_paddings = format_tuples(texts[:-1], rank)
    names, free = name_operands(pattern.operands), name_free_numbers(*([tail] if tail else []))
    result_names: dict[Node, str] = {n: "total" for n in walk(tail) if n.name == RESULT} if tail else {}

    def after(divide: str) -> str:
        return emit_function("after", tail, {**result_names, **names}, divide, numbers=free) if tail else ""

    after("exact")
    arguments = (
        StageArgument("x", x), StageArgument("w", w), *(StageArgument(names[o.node], o.node) for o in pattern.operands), *setting_arguments,
        *(StageArgument(s, n) for n, s in free.items()),
    )  # fmt: skip
    variables = {
        "rank": rank, "strides": strides, "paddings": paddings, "dilations": dilations, "further": output_paddings, "groups": texts[-1],
        "transposed": main.name == "transposed", "after": after, "has_after": tail is not None,
        "by_one": main.name == "transposed" or all(n.is_one for n in pattern.numbers[:rank]),
        "operands": [{"name": names[o.node], **dict(zip(("images", "channels", "space"), o.present))} for o in pattern.operands],
    }  # fmt: skip
    return PatternDescription(arguments, variables, find_traits(pattern, x))


def find_traits(pattern: KernelPattern, x: Node) -> frozenset[str]:
    """Traits: depthwise or not, and whether the epilogue divides."""
    groups = pattern.numbers[-1]
    is_depthwise = groups.is_same(x.shape[1]) and not groups.is_one
    traits = {
        "apart": is_depthwise,
        "product": not is_depthwise,
        "divide": pattern.epilogue is not None and has_tensor_division(pattern.epilogue),
    }
    return frozenset(name for name, holds in traits.items() if holds)


def uses_matrix_unit(choice: Choice) -> bool:
    """Whether the matrix unit computes the convolution."""
    return choice["algorithm"] != "taps"


template = KernelTemplate(
    decisions=(
        Decision("algorithm", ("shifts", "rows", "patches", "strips"), trait="product"),
        Decision("algorithm", ("taps", "shifts", "patches"), trait="apart"),
        Decision("layout", ("sublanes", "lanes"), one_of("algorithm", "taps")),
        Decision("channels", ("8", "12", "16", "64"), lambda choice: choice.get("layout") == "sublanes"),
        Decision("channels", ("100", "128", "256"), lambda choice: choice.get("layout") == "lanes"),
        Decision("hold", ("scratch", "registers", "none"), one_of("algorithm", "shifts", "rows", "strips")),
        Decision("span", ("all", "100", "256", "512", "1024", "2048"),
        lambda choice: uses_matrix_unit(choice) and choice.get("hold") != "none"),
        Decision("span", ("100", "256", "512", "1024"), one_of("hold", "none")),
        Decision("edge", ("clip", "pad"), lambda choice: choice.get("span", "all") != "all"),
        PRECISION._replace(when=uses_matrix_unit),
        DIVIDE, SEMANTICS, LIMIT,
    ),
    describe=describe,
)  # fmt: skip
